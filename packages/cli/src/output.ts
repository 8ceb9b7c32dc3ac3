import type { Writable } from "node:stream";
import type { Trouble } from "@diskmesh/api/registry";
import { visible } from "@diskmesh/domain";

/** Functions that return each column's cell for an item. */
export type Columns<Item> = Readonly<Record<string, (item: Item) => string | number | boolean>>;

export interface OutputOptions {
  readonly out: Writable & { readonly isTTY?: boolean };
  readonly err: Writable & { readonly isTTY?: boolean };
  readonly json: boolean;
  readonly environment: Readonly<Record<string, string | undefined>>;
}

const COLOURS: readonly (readonly [word: RegExp, code: number])[] = [
  [/^(ERROR|DEAD|UNAVAILABLE|TIMEOUT|does not answer)/, 31],
  [/^(WARNING|ATTACHING|CLOSING|UNPUBLISHING|PUBLISHING|HELD|PROCESSING|QUEUED|stands by|not serving)/, 33],
  [/^(ONLINE|ATTACHED|PUBLISHED|DONE|S_OK|serves)/, 32],
];

/** Prints tables for users or JSON for scripts. Results go to `out`, messages to `err`. */
export class Output {
  readonly #options: OutputOptions;
  readonly #hasColours: boolean;

  constructor(options: OutputOptions) {
    this.#options = options;
    const { out, environment, json } = options;
    this.#hasColours = !json && out.isTTY === true && !environment.NO_COLOR && environment.TERM !== "dumb";
  }

  get isJson(): boolean {
    return this.#options.json;
  }

  list<Item>(columns: Columns<Item>, items: readonly Item[], none: string): void {
    if (this.isJson) this.#json(items);
    else if (items.length === 0) this.say(none);
    else {
      const rows = items.map((item) => Object.values(columns).map((column) => printable(column(item))));
      this.#table(Object.keys(columns), rows);
    }
  }

  /** Prints a call's answer: JSON for scripts, `text` for users. */
  answer(answer: object, text: string): void {
    if (this.isJson) this.#json(answer);
    else for (const line of text.split("\n")) this.#options.out.write(`${this.#coloured(printable(line))}\n`);
  }

  /** Prints an item of a stream as a line. */
  item(item: object, text: string): void {
    this.#options.out.write(this.isJson ? `${visible(JSON.stringify(item))}\n` : `${printable(text)}\n`);
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

  #json(value: object): void {
    this.#options.out.write(`${visible(JSON.stringify(value, undefined, 2))}\n`);
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

/** Escapes control characters, because answers contain text of other callers, which must not control the terminal. */
function printable(value: string | number | boolean): string {
  return visible(String(value).replace(/[\n\t]/g, " "));
}

/** Returns an enum value's name without the enum's prefix. */
export function short(value: string): string {
  return value.replace(
    /^(ACTION_CODE|ATTACH_STATE|HOST_STATE|HEALTH|IDENTIFIED_BY|INSTANCE_STATE|JOBS_STATE|METHOD_SCOPE|PUBLICATION_STATE|STEP_STATE|TASK_STATE|TASK_QUEUE|VM_STATE)_/,
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
  const { sentence = "", since } = trouble ?? {};
  return since === undefined ? sentence : `${sentence}, since ${timeText(since)}`;
}

export function timeText(time: Date | undefined): string {
  return time === undefined ? "" : time.toISOString().replace(/\.\d+Z$/, "Z");
}
