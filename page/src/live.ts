// A page that is served during its session: it requests new documents while it is visible, keeps the selection, and shows its
// age. A page in a file has no such line, and its policy allows no request.

import { read } from "./data";
import { h } from "./dom";
import type { State } from "./state";

/** The interval of requests, as the server states it; null in a file. */
export type Live = { every_ms: number } | null;

const TITLES = { on: "Live", paused: "Paused", over: "Ended", lost: "No connection" } as const;

/** The line with the state, and the requests, which begin at once. */
export function live({ every_ms }: { every_ms: number }, state: State): HTMLElement {
  let [tag, busy, mode]: [string, boolean, keyof typeof TITLES] = ["", false, "on"];
  const title = h("b", { role: "status" });
  const since = h("span", {});
  const pause = h("button", { type: "button", onclick: () => turn(mode === "on" ? "paused" : "on") });
  const line = h("p", { id: "live-line" }, title, " ", since, " ", pause);
  const clock = () => new Date().toLocaleTimeString();

  function turn(to: keyof typeof TITLES, text?: string): void {
    mode = to;
    title.textContent = TITLES[to];
    pause.textContent = to === "on" ? "Pause" : "Continue";
    pause.hidden = to === "over";
    line.dataset["mode"] = to;
    if (text != null) since.textContent = text;
    if (to === "on") void ask();
  }

  async function ask(): Promise<void> {
    if (busy || mode === "paused" || mode === "over" || document.hidden) return;
    busy = true;
    try {
      const answer = await fetch("data", { headers: tag ? { "If-None-Match": tag } : {}, cache: "no-store" });
      if (answer.status !== 304 && !answer.ok) throw new Error(answer.statusText);
      if (mode === "lost") turn("on");
      if (answer.status !== 304) {
        const views = read(await answer.text());
        // The reader may have paused during the request; TypeScript assumes the earlier state.
        if ((mode as string) === "paused") return;
        const first = tag === "";
        tag = answer.headers.get("ETag") ?? "";
        const over = views.every((view) => view.status !== "running");
        // The page already has the first document.
        if (!first || over) keeping(() => state.replace(views));
        if (over) turn("over", "The session is over: this page does not change any more.");
        else
          since.textContent = `Complete trials until ${clock()}. The session continues; results follow with its analysis.`;
      }
    } catch {
      turn(
        "lost",
        "`bytegauge report --watch` has ended or cannot be reached; `bytegauge report --html` shows the stored trials.",
      );
    } finally {
      busy = false;
    }
  }

  setInterval(() => void ask(), every_ms);
  document.addEventListener("visibilitychange", () => void ask());
  turn("on", "");
  return line;
}

/** Redraws everything and restores scroll position, focus and open tables. */
export function keeping(draw: () => void): void {
  const figureOf = (element: Element | null) => element?.closest("figure[id], section[id], header")?.id ?? "";
  const places = "a, button, select, summary, [tabindex]";
  const within = (id: string) => [...(document.getElementById(id)?.querySelectorAll<HTMLElement>(places) ?? [])];
  const focused = document.activeElement as HTMLElement | null;
  const id = figureOf(focused);
  const at = focused ? within(id).indexOf(focused) : -1;
  const open = [...document.querySelectorAll("figure[id] details[open]")].map((each) => figureOf(each));
  const top = scrollY;
  draw();
  for (const figure of open) {
    const details = document.getElementById(figure)?.querySelector("details");
    if (details) details.open = true;
  }
  if (at >= 0 && !focused?.isConnected) within(id)[at]?.focus({ preventScroll: true });
  scrollTo({ top, behavior: "instant" });
}
