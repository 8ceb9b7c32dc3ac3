export {
  DURATION_BUCKETS_SECONDS,
  type MetricDeclaration,
  metric,
  nameWithUnit,
  prometheusNames,
} from "./declaration.js";
export { allEnded, counterOf, histogramOf, observe } from "./instruments.js";
