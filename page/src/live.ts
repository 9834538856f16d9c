// A page that is served while its session goes on: it asks for new documents while somebody sees it, keeps what is being
// looked at, and says how fresh it is. A page in a file has no such thing, and its policy lets it ask nobody.

import { read } from "./data";
import { h } from "./dom";
import type { State } from "./state";

/** How often to ask, as the server says; null in a file. */
export type Live = { every_ms: number } | null;

const TITLES = { on: "Live", paused: "Paused", over: "Ended", lost: "Nobody answers" } as const;

/** The line that tells it, and the asking, which begins at once. */
export function live({ every_ms }: { every_ms: number }, state: State): HTMLElement {
  let [tag, busy, standing]: [string, boolean, keyof typeof TITLES] = ["", false, "on"];
  const title = h("b", { role: "status" });
  const since = h("span", {});
  const pause = h("button", { type: "button", onclick: () => turn(standing === "on" ? "paused" : "on") });
  const line = h("p", { id: "live-line" }, title, " ", since, " ", pause);
  const clock = () => new Date().toLocaleTimeString();

  function turn(to: keyof typeof TITLES, said?: string): void {
    standing = to;
    title.textContent = TITLES[to];
    pause.textContent = to === "on" ? "Pause" : "Go on";
    pause.hidden = to === "over";
    line.dataset["standing"] = to;
    if (said != null) since.textContent = said;
    if (to === "on") void ask();
  }

  async function ask(): Promise<void> {
    if (busy || standing === "paused" || standing === "over" || document.hidden) return;
    busy = true;
    try {
      const answer = await fetch("data", { headers: tag ? { "If-None-Match": tag } : {}, cache: "no-store" });
      if (answer.status !== 304 && !answer.ok) throw new Error(answer.statusText);
      if (standing === "lost") turn("on");
      if (answer.status !== 304) {
        const views = read(await answer.text());
        // Whoever asked for a pause meanwhile means this one as well. TypeScript takes the standing for what it was.
        if ((standing as string) === "paused") return;
        const first = tag === "";
        tag = answer.headers.get("ETag") ?? "";
        const over = views.every((view) => view.status !== "running");
        // What came first stands in the page already.
        if (!first || over) keeping(() => state.replace(views));
        if (over) turn("over", "The session is over: this page stays as it is, and asks nobody any more.");
        else
          since.textContent = `Whole trials until ${clock()}. The session goes on, and nothing is proven before its judgement.`;
      }
    } catch {
      turn(
        "lost",
        "Who served this page has ended, or cannot be reached; `bytegauge report --html` shows what was kept.",
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

/** Does what draws everything anew, and puts the reader back to where he was: place, focus, and tables that are open. */
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
