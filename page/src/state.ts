// The reader's selection: a session, one of its groups, and a cell of that group.

import { type CellView, candidates, cellOf, type GroupView, pivot, recommendedOf, type View } from "./data";

export interface Looking {
  view: View;
  group: GroupView;
  /** The cell whose lines are drawn; the pivot until the reader selects another one. */
  cell: CellView | undefined;
}

export class State {
  /** The number of the session. */
  at = 0;
  private groupId: string | null = null;
  private cellId: string | null = null;
  private readonly listeners: (() => void)[] = [];

  constructor(readonly views: View[]) {}

  get view(): View {
    const view = this.views[this.at];
    if (!view) throw new Error("a page has a session at least");
    return view;
  }

  /** The selection; undefined in a session without a group. */
  looking(): Looking | undefined {
    const view = this.view;
    const { groups } = view;
    const group =
      groups.find(({ id }) => id === this.groupId) ?? groups.find((each) => recommendedOf(view, each)) ?? groups[0];
    if (!group) return undefined;
    const chosen = cellOf(view, this.cellId);
    return {
      view,
      group,
      cell: chosen?.group === group.id ? chosen : (pivot(view, group) ?? candidates(view, group)[0]),
    };
  }

  openSession(at: number): void {
    this.at = at;
    this.openGroup(null);
  }

  openGroup(id: string | null): void {
    this.groupId = id;
    this.cellId = null;
    for (const listener of this.listeners) listener();
  }

  /** Selects a cell without an event: the evidence makes what shows it again. */
  chooseCell(id: string): void {
    this.cellId = id;
  }

  onChange(listener: () => void): void {
    this.listeners.push(listener);
  }
}
