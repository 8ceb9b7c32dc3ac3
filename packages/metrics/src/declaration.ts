/** UCUM unit: seconds, bytes, a ratio or 0/1 state, or a count of the thing in braces. */
type Unit = "s" | "By" | "1" | `{${string}}`;

/** Values that a label may have, or a description of their bound. Labels with unbounded values are not allowed. */
type LabelBound = readonly string[] | string;

/**
 * Declares a metric as data. Counters and histograms are recorded as events occur; gauges and observed counters are
 * read at each scrape from numbers that exist anyway.
 */
export interface MetricDeclaration<Label extends string = string> {
  readonly kind: "counter" | "histogram" | "gauge" | "observed counter";
  /** OpenTelemetry name, without a unit. */
  readonly name: string;
  readonly unit: Unit;
  /** Sentence that explains the metric to operators. */
  readonly description: string;
  readonly labels?: { readonly [Name in Label]: LabelBound };
  /** Upper bounds of the histogram's buckets, in the metric's unit. */
  readonly buckets?: readonly number[];
}

/** Declares a metric and makes its label names part of its type. */
export function metric<Label extends string = never>(declaration: MetricDeclaration<Label>): MetricDeclaration<Label> {
  return declaration;
}

/** Bounds from the fastest call to the longest one that a caller waits for. */
export const DURATION_BUCKETS_SECONDS = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60,
];

const SUFFIXES: Readonly<Record<string, string>> = { s: "_seconds", By: "_bytes" };

/** Returns the Prometheus name with its unit, but without the `_total` of counters. */
export function nameWithUnit({ name, unit = "" }: { readonly name: string; readonly unit?: string }): string {
  const plain = name.replace(/[^a-zA-Z0-9_]/g, "_");
  const suffix = SUFFIXES[unit] ?? "";
  return plain.endsWith(suffix) ? plain : `${plain}${suffix}`;
}

/** Returns the Prometheus names of a metric's samples. */
export function prometheusNames(declaration: MetricDeclaration): readonly string[] {
  const name = nameWithUnit(declaration);
  if (declaration.kind === "histogram") return ["_bucket", "_sum", "_count"].map((part) => `${name}${part}`);
  return [declaration.kind === "gauge" ? name : `${name}_total`];
}
