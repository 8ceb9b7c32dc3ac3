export {
  DURATION_BUCKETS_SECONDS,
  type MetricDeclaration,
  metric,
  nameWithUnit,
  prometheusNames,
} from "./declaration.js";
export { type Cell, histogramOf, measureHistograms, readHistograms } from "./histograms.js";
export { allEnded, counterOf, METER, observe } from "./instruments.js";
