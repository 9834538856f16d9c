// What the reader looks at: one session, one group of it, one cell of that; and how figures are to be drawn.

import { type Between, type CellView, candidates, cellOf, type GroupView, groupOf, pivot, type View } from "./data";

export interface Looking {
  view: View;
  group: GroupView;
  /** The cell whose slices are drawn; the pivot until another one is chosen. */
  cell: CellView | undefined;
}

export class State {
  private session = 0;
  private groupId: string | null = null;
  private cellId: string | null = null;
  private readonly listeners: (() => void)[] = [];

  constructor(
    private documents: View[],
    /** What the sessions show beside each other; nothing of one alone. */
    readonly between: Between | null = null,
  ) {}

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

  /** What is looked at; nothing in a session that measured nothing. */
  looking(): Looking | undefined {
    const view = this.view;
    const group =
      groupOf(view, this.groupId) ?? view.groups.find((group) => group.recommendation.cell) ?? view.groups[0];
    if (!group) return undefined;
    const chosen = cellOf(view, this.cellId);
    return {
      view,
      group,
      cell: chosen?.group === group.id ? chosen : (pivot(view, group) ?? candidates(view, group)[0]),
    };
  }

  /** Newer documents of the same sessions: what is looked at stays what it was. */
  replace(views: View[]): void {
    this.documents = views;
    this.tell();
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

  /** The cell is kept in silence: the figure that it was chosen in draws what depends on it. */
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
