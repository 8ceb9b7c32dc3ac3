import type { Writable } from "node:stream";
import type { Trouble } from "@diskmesh/api/registry";
import { isJsonObject, quoted, visible } from "@diskmesh/domain";
import { UsageError } from "./exit-codes.js";

type Cell = string | number | boolean;

/** Functions that return each column's cell for an item. */
export type Columns<Item> = Readonly<Record<string, (item: Item) => Cell>>;

export const FORMATS = ["table", "wide", "json", "yaml"] as const;
type Format = (typeof FORMATS)[number];

export interface OutputOptions {
  readonly out: Writable & { readonly isTTY?: boolean };
  readonly err: Writable & { readonly isTTY?: boolean };
  readonly format: Format;
  /** Set for the format yaml; see `loadYaml`. */
  readonly toYaml?: ToYaml | undefined;
  /** Column of lists to sort by, with a "-" in front to reverse the order; empty for the order of the service. */
  readonly sort?: string;
  /** Conditions COLUMN=VALUE or COLUMN!=VALUE on the items of lists, separated by commas; empty for none. */
  readonly selector?: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
}

const COLOURS: readonly (readonly [word: RegExp, code: number])[] = [
  [/^(ERROR|DEAD|UNAVAILABLE|TIMEOUT|does not answer)/, 31],
  [/^(WARNING|ATTACHING|CLOSING|UNPUBLISHING|PUBLISHING|HELD|PROCESSING|QUEUED|stands by|not serving)/, 33],
  [/^(ONLINE|ATTACHED|PUBLISHED|DONE|S_OK|serves)/, 32],
];

/** Prints tables for users, or JSON or YAML for scripts. Results go to `out`, messages to `err`. */
export class Output {
  readonly #options: OutputOptions;
  readonly #hasColours: boolean;

  constructor(options: OutputOptions) {
    this.#options = options;
    const { out, environment } = options;
    this.#hasColours = !this.isData && out.isTTY === true && !environment.NO_COLOR && environment.TERM !== "dumb";
  }

  /** True when the output is for scripts. */
  get isData(): boolean {
    return this.#options.format === "json" || this.#options.format === "yaml";
  }

  /** Prints a list. `wide` has columns that only the wide table shows; all columns can select and sort. */
  list<Item>(columns: Columns<Item>, all: readonly Item[], none: string, wide: Columns<Item> = {}): void {
    const { format, sort = "", selector = "" } = this.#options;
    const known = { ...columns, ...wide };
    const items = sorted(known, sort, selected(known, selector, all));
    const shown = format === "wide" ? known : columns;
    if (this.isData) this.#data(items);
    else if (items.length === 0) this.say(none);
    else {
      const rows = items.map((item) => Object.values(shown).map((column) => printable(column(item))));
      this.#table(Object.keys(shown), rows);
    }
  }

  /** Prints an object whole: as JSON if that is the format, else as YAML. */
  async object(object: object): Promise<void> {
    if (this.#options.format === "json") this.#data(object);
    else this.#options.out.write(yamlText(object, this.#options.toYaml ?? (await loadYaml())));
  }

  /** Prints a call's answer: JSON or YAML for scripts, `text` for users. */
  answer(answer: object, text: string): void {
    if (this.isData) this.#data(answer);
    else for (const line of text.split("\n")) this.#options.out.write(`${this.#coloured(printable(line))}\n`);
  }

  /** Prints an item of a stream as a line. */
  item(item: object, text: string): void {
    this.#options.out.write(this.isData ? `${visible(JSON.stringify(item, bytesAsBase64))}\n` : `${printable(text)}\n`);
  }

  /** Prints a text verbatim, such as a config. Control characters are escaped on a terminal. */
  text(text: string): void {
    const lines = text.endsWith("\n") ? text : `${text}\n`;
    this.#options.out.write(this.#options.out.isTTY ? visible(lines) : lines);
  }

  /** Prints bytes unchanged, or on a terminal as text with escaped control characters. */
  bytes(bytes: Uint8Array): void {
    this.#options.out.write(this.#options.out.isTTY ? visible(Buffer.from(bytes).toString()) : bytes);
  }

  say(text: string): void {
    this.#options.err.write(`${printable(text)}\n`);
  }

  #data(value: object): void {
    const { out, toYaml } = this.#options;
    out.write(toYaml === undefined ? `${visible(JSON.stringify(value, bytesAsBase64, 2))}\n` : yamlText(value, toYaml));
  }

  #table(head: readonly string[], rows: readonly (readonly string[])[]): void {
    const widths = head.map((name, at) => Math.max(name.length, ...rows.map((row) => (row[at] as string).length)));
    const line = (cells: readonly string[], paint: (cell: string) => string) =>
      cells
        .map((cell, at) => paint(cell) + " ".repeat((widths[at] as number) - cell.length))
        .join("  ")
        .trimEnd();
    const upper = head.map((name) => name.toUpperCase());
    const lines = [line(upper, (cell) => cell), ...rows.map((row) => line(row, (cell) => this.#coloured(cell)))];
    this.#options.out.write(`${lines.join("\n")}\n`);
  }

  #coloured(cell: string): string {
    const [, code] = (this.#hasColours && COLOURS.find(([word]) => word.test(cell))) || [];
    return code === undefined ? cell : `\u001b[${code}m${cell}\u001b[0m`;
  }
}

/** Returns the items that meet all conditions of the selector. */
function selected<Item>(columns: Columns<Item>, selector: string, items: readonly Item[]): readonly Item[] {
  const conditions = selector.split(",").filter(Boolean);
  const tests = conditions.map((condition) => {
    const [, name = "", not, value] = /^([^=!]+)(!?)=(.*)$/.exec(condition) ?? [];
    if (value === undefined)
      throw new UsageError(`condition ${quoted(condition)} is neither COLUMN=VALUE nor COLUMN!=VALUE`);
    const column = columnOf(columns, name);
    return (item: Item) => (String(column(item)) === value) === (not === "");
  });
  return items.filter((item) => tests.every((test) => test(item)));
}

function sorted<Item>(columns: Columns<Item>, sort: string, items: readonly Item[]): readonly Item[] {
  if (sort === "") return items;
  const isReversed = sort.startsWith("-");
  const column = columnOf(columns, isReversed ? sort.slice(1) : sort);
  const inOrder = [...items].sort((a, b) => compared(column(a), column(b)));
  return isReversed ? inOrder.reverse() : inOrder;
}

function columnOf<Item>(columns: Columns<Item>, name: string): (item: Item) => Cell {
  const column = Object.hasOwn(columns, name) ? columns[name] : undefined;
  if (column !== undefined) return column;
  throw new UsageError(`there is no column ${quoted(name)}: the columns are ${Object.keys(columns).join(", ")}`);
}

/** Compares numbers and sizes by value, and other cells as texts with their numbers in order: host-2 before host-10. */
function compared(a: Cell, b: Cell): number {
  const [one, other] = [a, b].map((cell) => (typeof cell === "number" ? cell : bytesIn(String(cell))));
  if (one !== undefined && other !== undefined) return one - other;
  return String(a).localeCompare(String(b), "en", { numeric: true });
}

/** Returns the bytes of a text of `sizeText`; undefined for any other text. */
function bytesIn(text: string): number | undefined {
  const [, number, unit = ""] = /^([0-9.]+) (\w+)$/.exec(text) ?? [];
  const power = UNITS.indexOf(unit);
  return power < 0 ? undefined : Number(number) * 1_024 ** power;
}

type ToYaml = (value: unknown) => string;

/** Loads the YAML library, which most commands do not need. */
export async function loadYaml(): Promise<ToYaml> {
  const { stringify } = await import("yaml");
  return (value) => stringify(value, { lineWidth: 0 });
}

/** Returns YAML of what JSON would show, so that both formats have the same fields. */
function yamlText(value: object, toYaml: ToYaml): string {
  return visible(toYaml(JSON.parse(JSON.stringify(value, bytesAsBase64))));
}

/** Replaces bytes by base64, as the JSON of protobuf has them: a Buffer has become an array of numbers by itself. */
function bytesAsBase64(_key: string, value: unknown): unknown {
  const isBytes = isJsonObject(value) && value.type === "Buffer" && Array.isArray(value.data);
  return isBytes ? Buffer.from(value.data as number[]).toString("base64") : value;
}

/** Escapes control characters, because answers contain text of other callers, which must not control the terminal. */
function printable(value: string | number | boolean): string {
  return visible(String(value).replace(/[\n\t]/g, " "));
}

/** Returns an enum value's name without the enum's prefix. */
export function short(value: string): string {
  return value.replace(
    /^(ACTION_CODE|ATTACH_STATE|DRIVER_STATE|HOST_STATE|HEALTH|HTTP_METHOD|IDENTIFIED_BY|INSTANCE_STATE|JOBS_STATE|METHOD_SCOPE|PUBLICATION_STATE|STEP_STATE|TASK_STATE|TASK_QUEUE|VM_STATE)_/,
    "",
  );
}

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function sizeText(sizeBytes: number): string {
  let [value, unit] = [sizeBytes, 0];
  while (value >= 1024 && unit < UNITS.length - 1) [value, unit] = [value / 1024, unit + 1];
  return `${Number.isInteger(value) ? value : value.toFixed(1)} ${UNITS[unit]}`;
}

/** Returns the registry's description of an object's trouble, with the time at which the trouble began. */
export function troubleText(trouble: Trouble | undefined): string {
  const { sentence = "", startTime } = trouble ?? {};
  return startTime === undefined ? sentence : `${sentence}, since ${timeText(startTime)}`;
}

export function timeText(time: Date | undefined): string {
  return time === undefined ? "" : time.toISOString().replace(/\.\d+Z$/, "Z");
}
