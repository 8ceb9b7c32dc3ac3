import type { Had } from "./fault-runner.js";
import type { Ending, ErrorCount, Figures } from "./measures.js";
import type { Held, Sample } from "./resources.js";
import type { OwnExit } from "./supervised.js";

export interface ProcessReport {
  readonly name: string;
  readonly starts: number;
  readonly atFirst: Held | undefined;
  readonly peak: Omit<Held, "pid"> | undefined;
  readonly inTheEnd: Held | undefined;
}

/** Results of a soak on one store. */
export interface SoakReport {
  readonly startedAt: string;
  readonly store: string;
  readonly seed: number;
  readonly totalMs: number;
  /** Time in ms from the end of the last fault until the mesh had recovered. */
  readonly convergedMs: number;
  readonly operations: readonly Figures[];
  readonly errors: readonly ErrorCount[];
  readonly faults: readonly {
    readonly name: string;
    readonly count: number;
    /** Number of different targets. */
    readonly targets: number;
    readonly skipped: string | undefined;
  }[];
  readonly hadFaults: readonly Had[];
  readonly exits: readonly (OwnExit & { readonly excuse: string | undefined })[];
  /** Number of checks that removed devices are closed. */
  readonly descriptorChecks: number;
  readonly violations: readonly { readonly at: string; readonly text: string }[];
  readonly processes: readonly ProcessReport[];
  readonly samples: readonly Sample[];
}

/** Formats the report as tables, without details for programs. */
export function tables(report: SoakReport): string {
  const ms = (value: number) => value.toFixed(value < 10 ? 1 : 0);
  const parts = [
    table(
      ["operation or call", "done", "p50 ms", "p99 ms", "longest ms"],
      report.operations.map((one) => [one.name, `${one.done}`, ms(one.p50Ms), ms(one.p99Ms), ms(one.longestMs)]),
    ),
    errorTable("told to try again, of", report, "to be repeated"),
    errorTable("failed for its caller", report, "failed"),
    table(
      ["fault", "times", "targets", ""],
      report.faults.map((one) => [
        one.name,
        `${one.count}`,
        `${one.targets}`,
        one.skipped === undefined ? "" : `skipped: ${one.skipped}`,
      ]),
    ),
    table(
      ["process", "starts", "MiB at rest", "most", "in the end", "descriptors at rest", "most", "in the end"],
      report.processes.map(({ name, starts, atFirst, peak, inTheEnd }) => [
        name,
        `${starts}`,
        ...[atFirst, peak, inTheEnd].map((held) => `${held?.residentMib ?? "-"}`),
        ...[atFirst, peak, inTheEnd].map((held) => `${held?.descriptors ?? "-"}`),
      ]),
    ),
    report.exits.map(exitLine).join("\n"),
    `${report.descriptorChecks} looks at descriptors of what was let go of; ` +
      `all as it should be ${report.convergedMs} ms after the last fault`,
    report.violations.map(({ at, text }) => `VIOLATION ${at}: ${text}`).join("\n"),
  ];
  return parts.filter((part) => part !== "").join("\n\n");
}

function errorTable(title: string, { errors }: SoakReport, ending: Ending): string {
  const rows = errors.filter((one) => one.ending === ending);
  if (rows.length === 0) return `${title}: none`;
  return table(
    [title, "kind", "count", "the first"],
    rows.map((one) => [one.name, one.kind, `${one.count}`, shortened(one.example)]),
  );
}

function exitLine({ at, name, excuse, lastLines }: SoakReport["exits"][number]): string {
  const said = shortened(lastLines.split("\n").at(-1) ?? "");
  return `${at} ${name} ended by itself: ${excuse ?? "nobody knows why"}: ${said}`;
}

const LONGEST_EXAMPLE = 100;

function shortened(text: string): string {
  const line = text.replace(/\s+/g, " ");
  return line.length > LONGEST_EXAMPLE ? `${line.slice(0, LONGEST_EXAMPLE)}...` : line;
}

/** Formats a table with numbers aligned right and words aligned left. */
function table(titles: readonly string[], rows: readonly (readonly string[])[]): string {
  if (rows.length === 0) return "";
  const widths = titles.map((title, column) => Math.max(title.length, ...rows.map((row) => row[column]?.length ?? 0)));
  const isFigures = titles.map((_, column) => rows.every((row) => /^[\d.-]+$/.test(row[column] ?? "")));
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, column) =>
        isFigures[column] ? cell.padStart(widths[column] ?? 0) : cell.padEnd(widths[column] ?? 0),
      )
      .join("  ")
      .trimEnd();
  return [titles, titles.map((_, column) => "-".repeat(widths[column] ?? 0)), ...rows].map(line).join("\n");
}
