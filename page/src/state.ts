// The reader's selection: a session, one of its groups, and a cell of that group.

import { type CellView, candidates, cellOf, type GroupView, groupOf, pivot, recommendedOf, type View } from "./data";

export interface Looking {
  view: View;
  group: GroupView;
  /** The cell whose lines are drawn; the pivot until the reader selects another one. */
  cell: CellView | undefined;
}

export class State {
  private session = 0;
  private groupId: string | null = null;
  private cellId: string | null = null;
  private readonly listeners: (() => void)[] = [];

  constructor(private readonly documents: View[]) {}

  get views(): readonly View[] {
    return this.documents;
  }

  get view(): View {
    const view = this.views[this.session];
    if (!view) throw new Error("a page has a session at least");
    return view;
  }

  get at(): number {
    return this.session;
  }

  /** The selection; undefined in a session without a group. */
  looking(): Looking | undefined {
    const view = this.view;
    const group =
      groupOf(view, this.groupId) ?? view.groups.find((group) => recommendedOf(view, group)) ?? view.groups[0];
    if (!group) return undefined;
    const chosen = cellOf(view, this.cellId);
    return {
      view,
      group,
      cell: chosen?.group === group.id ? chosen : (pivot(view, group) ?? candidates(view, group)[0]),
    };
  }

  openSession(index: number): void {
    this.session = index;
    this.groupId = null;
    this.cellId = null;
    this.tell();
  }

  openGroup(id: string): void {
    this.groupId = id;
    this.cellId = null;
    this.tell();
  }

  /** Selects a cell without an event: the evidence makes what shows it again. */
  chooseCell(id: string): void {
    this.cellId = id;
  }

  onChange(listener: () => void): void {
    this.listeners.push(listener);
  }

  private tell(): void {
    for (const listener of this.listeners) listener();
  }
}
