import type { Cell, Layout } from "./map-layout.js";
import { hostStateOf } from "./rows.js";

interface Marked {
  readonly selected: string | undefined;
  readonly cursor: string | undefined;
}

/** Minimum width of cells with a name, and minimum height of cells with devices. */
const NAMED_WIDTH = 80;
const DEVICES_HEIGHT = 24;
const GAP = 2;

/** Draws the hosts; each state has a colour and a shape of its own. */
export function paint(canvas: HTMLCanvasElement, layout: Layout, marked: Marked): void {
  const context = canvas.getContext("2d");
  if (context === null) return;
  const scale = devicePixelRatio || 1;
  const width = canvas.parentElement?.clientWidth ?? 0;
  canvas.width = Math.floor(width * scale);
  canvas.height = Math.floor(layout.height * scale);
  context.scale(scale, scale);
  const colour = coloursOf(canvas);
  context.font = `12px ${getComputedStyle(canvas).fontFamily}`;
  context.textBaseline = "middle";
  context.fillStyle = colour("--soft");
  for (const { text, y } of layout.labels) context.fillText(text, 0, y + 11);
  for (const cell of layout.cells) paintCell(context, cell, layout, colour);
  for (const cell of layout.cells) {
    if (cell.name !== marked.selected && cell.name !== marked.cursor) continue;
    context.strokeStyle = colour(cell.name === marked.selected ? "--accent" : "--ink");
    context.lineWidth = 2;
    context.strokeRect(cell.x + 1, cell.y + 1, layout.cellWidth - GAP, layout.cellHeight - GAP);
  }
}

type Colour = (name: string) => string;

function coloursOf(canvas: HTMLCanvasElement): Colour {
  // `light-dark()` in a custom property is not resolved, so the colour is read from an element that uses the property.
  const style = getComputedStyle(canvas);
  const known = new Map<string, string>();
  return (name) => {
    let found = known.get(name);
    if (found === undefined) {
      canvas.style.color = `var(${name})`;
      found = style.color;
      known.set(name, found);
    }
    return found;
  };
}

const DEVICE_COLOURS: Readonly<Record<string, string>> = {
  a: "--online",
  g: "--changing",
  c: "--changing",
  d: "--faint",
  u: "--faint",
  w: "--warning",
  x: "--unavailable",
};

/** Colours of host states that have none of their own. */
const COLOURED_AS: Readonly<Record<string, string>> = { removed: "faint", leaving: "changing", cordoned: "warning" };

function paintCell(
  context: CanvasRenderingContext2D,
  { name, row, x, y }: Cell,
  { cellWidth, cellHeight }: Layout,
  colour: Colour,
): void {
  const width = cellWidth - GAP * 2;
  const height = cellHeight - GAP * 2;
  const [left, top] = [x + GAP, y + GAP];
  const state = COLOURED_AS[hostStateOf(row)] ?? row.state;
  const isAway = state === "unavailable" || state === "dead";
  const isLarge = cellHeight >= DEVICES_HEIGHT;
  context.fillStyle = isLarge ? colour("--cell") : colour(`--${state}`);
  context.fillRect(left, top, width, height);
  if (isLarge) {
    context.fillStyle = colour(`--${state}`);
    context.fillRect(left, top, 3, height);
    paintDevices(context, row.devices, left + 8, top + height - 11, width - 12, colour);
    if (cellWidth >= NAMED_WIDTH) {
      context.fillStyle = colour("--ink");
      context.fillText(name, left + 8, top + (height - 10) / 2 - 1, width - 20);
    }
  } else if (row.trouble !== undefined || row.devices.includes("x")) {
    context.fillStyle = colour("--paper");
    context.fillRect(left + width / 2 - 1.5, top + height / 2 - 1.5, 3, 3);
  }
  if (!isAway) return;
  context.strokeStyle = isLarge ? colour("--unavailable") : colour("--paper");
  context.lineWidth = 1.5;
  const size = isLarge ? 8 : Math.min(width, height) - 2;
  const [crossX, crossY] = isLarge ? [left + width - size - 5, top + 5] : [left + 1, top + 1];
  context.beginPath();
  context.moveTo(crossX, crossY);
  context.lineTo(crossX + size, crossY + size);
  context.moveTo(crossX + size, crossY);
  context.lineTo(crossX, crossY + size);
  context.stroke();
}

function paintDevices(
  context: CanvasRenderingContext2D,
  devices: string,
  x: number,
  y: number,
  width: number,
  colour: Colour,
): void {
  const step = Math.min(9, Math.max(3, width / Math.max(1, devices.length)));
  for (let index = 0; index < devices.length && (index + 1) * step <= width + 1; index++) {
    const letter = devices[index] ?? "u";
    context.fillStyle = colour(DEVICE_COLOURS[letter] ?? "--faint");
    const size = step - 2;
    // Devices that are not open are drawn hollow and those in error with a gap, so that states differ without colour.
    if (letter === "d" || letter === "u") {
      context.fillRect(x + index * step, y + size - 1, size, 1.5);
      continue;
    }
    context.fillRect(x + index * step, y, size, Math.min(7, size));
    if (letter === "x" || letter === "w") context.clearRect(x + index * step + size / 2 - 0.5, y, 1, 7);
  }
}
