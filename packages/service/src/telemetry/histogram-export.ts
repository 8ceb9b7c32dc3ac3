import { METER, measureHistograms, readHistograms } from "@diskmesh/metrics";
import { ValueType } from "@opentelemetry/api";
import { emptyResource } from "@opentelemetry/resources";
import type { MetricData, MetricProducer } from "@opentelemetry/sdk-metrics";

/** Exports the process's histograms to OpenTelemetry readers, cumulated from now on. `stop` ends the measuring. */
export function histogramProducer({
  AggregationTemporality,
  DataPointType,
}: typeof import("@opentelemetry/sdk-metrics")): MetricProducer & { readonly stop: () => void } {
  const stop = measureHistograms();
  const startTime = hrTimeOf(Date.now());
  const metricData = (): MetricData[] => {
    const endTime = hrTimeOf(Date.now());
    return readHistograms().map(({ declaration: { name, description, unit }, series }) => ({
      descriptor: { name, description, unit, valueType: ValueType.DOUBLE },
      aggregationTemporality: AggregationTemporality.CUMULATIVE,
      dataPointType: DataPointType.HISTOGRAM,
      dataPoints: series.map(({ labels, bounds, counts, count, sum }) => {
        // Copied, because a reader may use the arrays after the histogram has changed.
        const buckets = { boundaries: [...bounds], counts: [...counts] };
        return { startTime, endTime, attributes: labels, value: { buckets, count, sum } };
      }),
    }));
  };
  const collect = async () => {
    const scopeMetrics = [{ scope: { name: METER }, metrics: metricData() }];
    return { resourceMetrics: { resource: emptyResource(), scopeMetrics }, errors: [] };
  };
  return { collect, stop };
}

/** Converts to OpenTelemetry's form: seconds, and the remaining nanoseconds. */
function hrTimeOf(timeMs: number): [number, number] {
  return [Math.floor(timeMs / 1_000), (timeMs % 1_000) * 1e6];
}
