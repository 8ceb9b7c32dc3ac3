import { type Counter, type MeterProvider, metrics, type Observable } from "@opentelemetry/api";
import type { MetricDeclaration } from "./declaration.js";
import type { Labels } from "./histograms.js";

/** Reports a sample of an observed metric. A metric without labels takes no labels argument. */
type Report<Label extends string> = [Label] extends [never]
  ? (value: number) => void
  : (value: number, labels: Labels<Label>) => void;

/** OpenTelemetry meter name of all instruments. */
export const METER = "diskmesh";

interface Made {
  readonly provider: MeterProvider;
  readonly counters: Map<MetricDeclaration, Counter>;
}

// Cached per provider, because a counter made before the SDK started never records anything.
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
 * Calls `read` at each scrape; `read` must be cheap. Must be called after telemetry has started, because the meter is
 * bound to the provider of that moment. Returns a function that ends the observation.
 */
export function observe<Label extends string>(
  declaration: MetricDeclaration<Label>,
  read: (say: Report<Label>) => void | Promise<void>,
): () => void {
  const meter = metrics.getMeter(METER);
  const instrument: Observable =
    declaration.kind === "gauge"
      ? meter.createObservableGauge(declaration.name, optionsOf(declaration))
      : meter.createObservableCounter(declaration.name, optionsOf(declaration));
  const callback: Parameters<Observable["addCallback"]>[0] = (result) =>
    read(((value: number, labels = {}) => result.observe(value, labels)) as Report<Label>);
  instrument.addCallback(callback);
  return () => instrument.removeCallback(callback);
}

/** Returns a function that ends several observations. */
export function allEnded(ends: readonly (() => void)[]): () => void {
  return () => {
    for (const end of ends) end();
  };
}
