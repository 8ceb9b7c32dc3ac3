import type { Attributes, Context, Link, SpanKind } from "@opentelemetry/api";
import { trace } from "@opentelemetry/api";
import type { tracing } from "@opentelemetry/sdk-node";
import { ConfigError } from "../config/config-error.js";
import type { Environment } from "../config/telemetry-options.js";

type Sampler = tracing.Sampler;

/** Frequent calls that are not worth a trace: heartbeats and health checks. */
const HEARTBEATS = /(?:\/Heartbeat|Health\/(?:Check|Watch))$/;

/**
 * Returns the sampler that OTEL_TRACES_SAMPLER names, by default that of all traces; heartbeats are sampled only as part
 * of another trace.
 */
export function samplerOf(
  { AlwaysOnSampler, AlwaysOffSampler, ParentBasedSampler, TraceIdRatioBasedSampler, SamplingDecision }: typeof tracing,
  env: Environment,
): Sampler {
  const ofParent = (root: Sampler): Sampler => new ParentBasedSampler({ root });
  const ratio = (): Sampler => new TraceIdRatioBasedSampler(ratioIn(env));
  const named: Readonly<Record<string, () => Sampler>> = {
    always_on: () => new AlwaysOnSampler(),
    always_off: () => new AlwaysOffSampler(),
    traceidratio: ratio,
    parentbased_always_on: () => ofParent(new AlwaysOnSampler()),
    parentbased_always_off: () => ofParent(new AlwaysOffSampler()),
    parentbased_traceidratio: () => ofParent(ratio()),
  };
  const name = env.OTEL_TRACES_SAMPLER || "parentbased_always_on";
  const chosen = named[name]?.();
  if (chosen === undefined)
    throw new ConfigError(
      `OTEL_TRACES_SAMPLER is ${JSON.stringify(name)}: give one of ${Object.keys(named).join(", ")}`,
    );
  return {
    shouldSample: (
      parent: Context,
      traceId: string,
      span: string,
      kind: SpanKind,
      attributes: Attributes,
      links: Link[],
    ) =>
      HEARTBEATS.test(span) && trace.getSpanContext(parent) === undefined
        ? { decision: SamplingDecision.NOT_RECORD }
        : chosen.shouldSample(parent, traceId, span, kind, attributes, links),
    toString: () => `without heartbeats, ${chosen}`,
  };
}

function ratioIn(env: Environment): number {
  const text = env.OTEL_TRACES_SAMPLER_ARG || "1";
  const ratio = Number(text);
  if (ratio >= 0 && ratio <= 1) return ratio;
  throw new ConfigError(`OTEL_TRACES_SAMPLER_ARG is ${JSON.stringify(text)}: give a number from 0 to 1`);
}
