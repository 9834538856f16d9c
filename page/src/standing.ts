// The state of a test as a sign and a text. Judges nothing.

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

/** The state of a group's test; null if two options were compared, or one was measured. */
export function doubt(view: View, group: string): { mark: State; text: string } | null {
  const test = view.tests.find(({ id }) => id === group);
  if (!test || view.versus || test.state === "single") return null;
  return { mark: test.state, text: `${capital(SIGNS[test.state][1])}.` };
}

/** The sign of a state. */
export const signOf = (state: State): string => SIGNS[state][0];
