import { type Counter, type Histogram, type MeterProvider, metrics, type Observable } from "@opentelemetry/api";
import type { MetricDeclaration } from "./declaration.js";

type Labels<Label extends string> = { readonly [Name in Label]: string };

/** Says a value of an observed metric; a metric without labels has one value. */
type Say<Label extends string> = [Label] extends [never]
  ? (value: number) => void
  : (value: number, labels: Labels<Label>) => void;

const METER = "diskmesh";

interface Made {
  readonly provider: MeterProvider;
  readonly instruments: Map<MetricDeclaration, unknown>;
}

// An instrument that was made before there was an SDK measures nothing for ever: each provider has its own.
let made: Made | undefined;

function instrumentOf<Instrument>(declaration: MetricDeclaration, make: (provider: MeterProvider) => Instrument) {
  const provider = metrics.getMeterProvider();
  if (made?.provider !== provider) made = { provider, instruments: new Map() };
  const known = made.instruments.get(declaration) as Instrument | undefined;
  if (known !== undefined) return known;
  const instrument = make(provider);
  made.instruments.set(declaration, instrument);
  return instrument;
}

const optionsOf = ({ unit, description }: MetricDeclaration) => ({ unit, description });

/** A counter to add to. */
export function counterOf<Label extends string>(declaration: MetricDeclaration<Label>): Counter<Labels<Label>> {
  return instrumentOf(declaration, (provider) =>
    provider.getMeter(METER).createCounter(declaration.name, optionsOf(declaration)),
  );
}

/** A histogram to record values in, in the declaration's unit. */
export function histogramOf<Label extends string>(declaration: MetricDeclaration<Label>): Histogram<Labels<Label>> {
  const advice = declaration.buckets && { explicitBucketBoundaries: [...declaration.buckets] };
  return instrumentOf(declaration, (provider) =>
    provider
      .getMeter(METER)
      .createHistogram(declaration.name, { ...optionsOf(declaration), ...(advice && { advice }) }),
  );
}

/**
 * From now on `read` is called whenever somebody asks for metrics; it must cost little. To be called once the process's
 * telemetry has started. Returns what ends it.
 */
export function observe<Label extends string>(
  declaration: MetricDeclaration<Label>,
  read: (say: Say<Label>) => void,
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
