import { type Counter, type MeterProvider, metrics, type Observable } from "@opentelemetry/api";
import type { MetricDeclaration } from "./declaration.js";
import type { Labels } from "./histograms.js";

/** Says a value of an observed metric; a metric without labels has one value. */
type Say<Label extends string> = [Label] extends [never]
  ? (value: number) => void
  : (value: number, labels: Labels<Label>) => void;

/** Whose instruments they are, as OpenTelemetry calls it. */
export const METER = "diskmesh";

interface Made {
  readonly provider: MeterProvider;
  readonly counters: Map<MetricDeclaration, Counter>;
}

// A counter that was made before there was an SDK measures nothing for ever: each provider has its own.
let made: Made | undefined;

const optionsOf = ({ unit, description }: MetricDeclaration) => ({ unit, description });

/** A counter to add to. */
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
 * From now on `read` is called whenever somebody asks for metrics; it must cost little. To be called once the process's
 * telemetry has started. Returns what ends it.
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

/** Ends several observations. */
export function allEnded(ends: readonly (() => void)[]): () => void {
  return () => {
    for (const end of ends) end();
  };
}
