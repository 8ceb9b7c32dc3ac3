/** UCUM: seconds, bytes, a ratio or a state of 0 and 1, or what is counted, in braces. */
type Unit = "s" | "By" | "1" | `{${string}}`;

/** The values that a label may have, or in words what bounds them: no label takes whatever somebody writes. */
type LabelBound = readonly string[] | string;

/**
 * A metric as data. A counter goes up, a histogram takes each value measured; gauges and observed counters are read when
 * somebody asks, from numbers that are there anyway.
 */
export interface MetricDeclaration<Label extends string = string> {
  readonly kind: "counter" | "histogram" | "gauge" | "observed counter";
  /** As OpenTelemetry names it, without a unit. */
  readonly name: string;
  readonly unit: Unit;
  /** A sentence for operators. */
  readonly description: string;
  readonly labels?: { readonly [Name in Label]: LabelBound };
  /** Upper bounds of a histogram's buckets. */
  readonly buckets?: readonly number[];
}

/** Declares a metric: the names of its labels become part of its type. */
export function metric<Label extends string = never>(declaration: MetricDeclaration<Label>): MetricDeclaration<Label> {
  return declaration;
}

/** From the fastest call to the longest that anybody waits for. */
export const DURATION_BUCKETS_SECONDS = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60,
];

const SUFFIXES: Readonly<Record<string, string>> = { s: "_seconds", By: "_bytes" };

/** The name with its unit, as Prometheus has it: all but the `_total` of counters. */
export function nameWithUnit({ name, unit = "" }: { readonly name: string; readonly unit?: string }): string {
  const plain = name.replace(/[^a-zA-Z0-9_]/g, "_");
  const suffix = SUFFIXES[unit] ?? "";
  return plain.endsWith(suffix) ? plain : `${plain}${suffix}`;
}

/** The names under which Prometheus has a metric's samples. */
export function prometheusNames(declaration: MetricDeclaration): readonly string[] {
  const name = nameWithUnit(declaration);
  if (declaration.kind === "histogram") return ["_bucket", "_sum", "_count"].map((part) => `${name}${part}`);
  return [declaration.kind === "gauge" ? name : `${name}_total`];
}
