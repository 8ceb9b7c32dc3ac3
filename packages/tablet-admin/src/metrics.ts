import { allEnded, counterOf, DURATION_BUCKETS_SECONDS, histogramOf, metric, observe } from "@diskmesh/metrics";
import type { Schema, Tablet } from "@diskmesh/tablet";

/** Metrics of a tablet. The leader exports all of them; a standby counts edits. */
export const tabletMetrics = {
  commits: metric({
    kind: "histogram",
    name: "diskmesh.tablet.commit.duration",
    unit: "s",
    description: "Commits: how long each took until it was durable.",
    buckets: DURATION_BUCKETS_SECONDS,
  }),
  transactions: metric({
    kind: "histogram",
    name: "diskmesh.tablet.commit.transactions",
    unit: "{transaction}",
    description: "How many transactions shared each commit.",
    buckets: [1, 2, 5, 10, 25, 50, 100, 250, 500, 1000],
  }),
  size: metric({
    kind: "counter",
    name: "diskmesh.tablet.commit.size",
    unit: "By",
    description: "Bytes of the documents that were committed.",
  }),
  generation: metric({
    kind: "gauge",
    name: "diskmesh.tablet.generation",
    unit: "1",
    description: "The tablet generation of this leader: each takeover takes a higher one.",
  }),
  takeovers: metric({
    kind: "counter",
    name: "diskmesh.tablet.takeovers",
    unit: "{takeover}",
    description: "How often this process has begun to lead.",
  }),
  documentsRead: metric({
    kind: "gauge",
    name: "diskmesh.tablet.takeover.documents",
    unit: "{document}",
    description:
      "What a takeover had to read: documents and log entries that this process had not followed by then. Few, if it " +
      "stood by long enough.",
  }),
  edited: metric({
    kind: "counter",
    name: "diskmesh.tablet.edited",
    unit: "{document}",
    description:
      "Documents of the readable collections on a database that a leader or a standby found edited by something else, " +
      "or damaged files of a folder. The leader stores them anew.",
  }),
  leaseLeft: metric({
    kind: "gauge",
    name: "diskmesh.tablet.lease.left",
    unit: "s",
    description: "How long this leader may act without another renewal of its lease, on a database.",
  }),
};

/** Exports the metrics of a tablet that this process leads; returns a function that ends the export. */
export function observeTablet<S extends Schema>(tablet: Tablet<S>): () => void {
  counterOf(tabletMetrics.takeovers).add(1);
  return allEnded([
    tablet.watch((_changes, { durationMs, transactions, sizeBytes }) => {
      histogramOf(tabletMetrics.commits).record(durationMs / 1_000);
      histogramOf(tabletMetrics.transactions).record(transactions);
      counterOf(tabletMetrics.size).add(sizeBytes);
    }),
    observe(tabletMetrics.generation, (say) => say(tablet.generation)),
    observe(tabletMetrics.documentsRead, (say) => {
      if (tablet.documentsRead !== undefined) say(tablet.documentsRead);
    }),
    observe(tabletMetrics.leaseLeft, (say) => {
      if (tablet.leaseLeftMs !== undefined) say(tablet.leaseLeftMs / 1_000);
    }),
  ]);
}
