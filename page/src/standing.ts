// How far the result of a test decides, as its state says it. Nothing is judged here.

import type { Test, View } from "./data";
import { capital } from "./format";

export type State = Test["state"];

const SIGNS: Record<State, [sign: string, meaning: string]> = {
  decided: ["✓", "within the margin of the best"],
  inconclusive: ["○", "inconclusive: the intervals are wide"],
  invalid: ["?", "not valid: the A/A control differs"],
  unconfirmed: ["?", "no result yet"],
  single: ["–", "one option: nothing to compare with"],
  failed: ["×", "nothing was measured"],
};

/** How far the test of a group decides; nothing where two were compared, or one option was measured. */
export function doubt(view: View, group: string): { mark: State; text: string } | null {
  const test = view.tests.find(({ id }) => id === group);
  if (!test || view.versus || test.state === "single") return null;
  return { mark: test.state, text: `${capital(SIGNS[test.state][1])}.` };
}

/** The sign of a state. */
export const signOf = (state: State): string => SIGNS[state][0];
