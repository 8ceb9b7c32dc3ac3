import type { HostRow } from "./rows.js";

export interface Cell {
  readonly name: string;
  readonly row: HostRow;
  readonly x: number;
  readonly y: number;
}

export interface Layout {
  readonly cells: readonly Cell[];
  /** Names of the azs, above their cells. */
  readonly labels: readonly { readonly text: string; readonly y: number }[];
  readonly cellWidth: number;
  readonly cellHeight: number;
  readonly columns: number;
  readonly height: number;
}

const LABEL_HEIGHT = 22;
/**
 * Cell sizes in pixels by maximum number of hosts. Large cells show names, smaller ones devices, and the smallest ones
 * are dots.
 */
const SIZES: readonly (readonly [upToHosts: number, width: number, height: number])[] = [
  [24, 148, 46],
  [120, 92, 34],
  [600, 34, 26],
  [2_500, 16, 16],
];
const SMALLEST = [9, 9] as const;

/** Arranges hosts by az and rack, from left to right. */
export function arrange(hosts: readonly (readonly [string, HostRow])[], width: number): Layout {
  const [, cellWidth = SMALLEST[0], cellHeight = SMALLEST[1]] =
    SIZES.find(([upTo]) => hosts.length <= upTo) ?? ([0, ...SMALLEST] as const);
  const columns = Math.max(1, Math.floor(width / cellWidth));
  const byAz = Map.groupBy(hosts, ([, { az }]) => az);
  const cells: Cell[] = [];
  const labels: { text: string; y: number }[] = [];
  let y = 0;
  for (const az of [...byAz.keys()].sort()) {
    labels.push({ text: az || "no az", y });
    y += LABEL_HEIGHT;
    const inAz = (byAz.get(az) ?? []).toSorted(
      ([a, rowA], [b, rowB]) => compare(rowA.rack, rowB.rack) || compare(a, b),
    );
    for (const [index, [name, row]] of inAz.entries())
      cells.push({ name, row, x: (index % columns) * cellWidth, y: y + Math.floor(index / columns) * cellHeight });
    y += Math.ceil(inAz.length / columns) * cellHeight;
  }
  return { cells, labels, cellWidth, cellHeight, columns, height: y };
}

/** Returns the host whose cell contains the point. */
export function hostAt({ cells, cellWidth, cellHeight }: Layout, x: number, y: number): Cell | undefined {
  return cells.find((cell) => x >= cell.x && x < cell.x + cellWidth && y >= cell.y && y < cell.y + cellHeight);
}

/** Returns the host beside, above or below; the first host when none was selected. */
export function moved(layout: Layout, from: string | undefined, stepX: number, stepY: number): string | undefined {
  const { cells, cellHeight } = layout;
  const index = cells.findIndex(({ name }) => name === from);
  const at = cells[index];
  if (at === undefined) return cells[0]?.name;
  if (stepY === 0) return (cells[index + stepX] ?? at).name;
  const ys = [...new Set(cells.map(({ y }) => y))];
  const y = ys[ys.indexOf(at.y) + stepY];
  if (y === undefined) return at.name;
  const inRow = cells.filter((cell) => cell.y >= y && cell.y < y + cellHeight);
  return (inRow.find(({ x }) => x === at.x) ?? inRow.at(-1) ?? at).name;
}

const NAMES = new Intl.Collator("en", { numeric: true });

function compare(a: string, b: string): number {
  return NAMES.compare(a, b);
}
