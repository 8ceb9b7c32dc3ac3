import { type Counter, type MeterProvider, metrics, type Observable } from "@opentelemetry/api";
import type { MetricDeclaration } from "./declaration.js";
import type { Labels } from "./histograms.js";

/** Reports a value of an observed metric; a metric without labels has one value. */
type Say<Label extends string> = [Label] extends [never]
  ? (value: number) => void
  : (value: number, labels: Labels<Label>) => void;

/** OpenTelemetry meter name of all instruments. */
export const METER = "diskmesh";

interface Made {
  readonly provider: MeterProvider;
  readonly counters: Map<MetricDeclaration, Counter>;
}

// Counters are kept per provider: a counter that was made before the SDK started would never measure anything.
let made: Made | undefined;

const optionsOf = ({ unit, description }: MetricDeclaration) => ({ unit, description });

/** Returns the counter of a declaration. */
export function counterOf<Label extends string>(declaration: MetricDeclaration<Label>): Counter<Labels<Label>> {
  const provider = metrics.getMeterProvider();
  if (made?.provider !== provider) made = { provider, counters: new Map() };
  let counter = made.counters.get(declaration);
  if (counter === undefined) {
    counter = provider.getMeter(METER).createCounter(declaration.name, optionsOf(declaration));
    made.counters.set(declaration, counter);
  }
  return counter;
}

/**
 * Calls `read` at each scrape; `read` must be cheap. Must be called after the telemetry of the process has started.
 * Returns a function that ends it.
 */
export function observe<Label extends string>(
  declaration: MetricDeclaration<Label>,
  read: (say: Say<Label>) => void | Promise<void>,
): () => void {
  const meter = metrics.getMeter(METER);
  const instrument: Observable =
    declaration.kind === "gauge"
      ? meter.createObservableGauge(declaration.name, optionsOf(declaration))
      : meter.createObservableCounter(declaration.name, optionsOf(declaration));
  const callback: Parameters<Observable["addCallback"]>[0] = (result) =>
    read(((value: number, labels = {}) => result.observe(value, labels)) as Say<Label>);
  instrument.addCallback(callback);
  return () => instrument.removeCallback(callback);
}

/** Returns a function that ends several observations. */
export function allEnded(ends: readonly (() => void)[]): () => void {
  return () => {
    for (const end of ends) end();
  };
}
