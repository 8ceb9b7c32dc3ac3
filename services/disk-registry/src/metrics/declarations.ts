import { DURATION_BUCKETS_SECONDS, metric } from "@diskmesh/metrics";
import { REASONS } from "../model/explain/cause.js";

export const ATTACH_STATES = ["UNKNOWN", "ATTACHING", "ATTACHED", "CLOSING", "DETACHED"] as const;
export const HEALTHS = ["ONLINE", "WARNING", "ERROR"] as const;
export const HOST_STATES = ["ONLINE", "WARNING", "UNAVAILABLE", "DEAD"] as const;
export const PUBLICATION_STATES = ["UNPUBLISHED", "PUBLISHING", "PUBLISHED", "UNPUBLISHING"] as const;
export const USES = ["free", "disk", "dirty", "unusable"] as const;
export const QUEUES = ["orders", "publications", "erases", "unexports"] as const;
export const QUEUE_STATES = ["ready", "running", "waiting"] as const;

/** Metrics of the fleet. Only a leading registry reports them; a standby reports none. */
export const registryMetrics = {
  hosts: metric({
    kind: "gauge",
    name: "diskmesh.hosts",
    unit: "{host}",
    description: "Hosts, by state.",
    labels: { state: HOST_STATES },
  }),
  devices: metric({
    kind: "gauge",
    name: "diskmesh.devices",
    unit: "{device}",
    description: "Devices, by attach state and health.",
    labels: { state: ATTACH_STATES, health: HEALTHS },
  }),
  capacity: metric({
    kind: "gauge",
    name: "diskmesh.devices.size",
    unit: "By",
    description:
      "Bytes of devices that are in operation: free for new disks, of a disk, dirty and so to be erased first, or not usable " +
      "for another reason.",
    labels: { use: USES },
  }),
  disks: metric({
    kind: "gauge",
    name: "diskmesh.disks",
    unit: "{disk}",
    description: "Disks, by how far their publication is.",
    labels: { state: PUBLICATION_STATES },
  }),
  troubles: metric({
    kind: "gauge",
    name: "diskmesh.troubles",
    unit: "{thing}",
    description: "Hosts, devices and disks in trouble, by its code: field `trouble` of Host, Device and Disk.",
    labels: { kind: ["HOST", "DEVICE", "DISK"], code: [...new Set(Object.values(REASONS).flat())] },
  }),
  pendingOrders: metric({
    kind: "gauge",
    name: "diskmesh.orders.pending",
    unit: "{device}",
    description: "Devices whose agent has not confirmed their last order yet.",
  }),
  oldestOrder: metric({
    kind: "gauge",
    name: "diskmesh.orders.oldest",
    unit: "s",
    description:
      "How long the device has waited that has waited longest for its agent to confirm its order; 0: none waits.",
  }),
  massSilence: metric({
    kind: "gauge",
    name: "diskmesh.mass_silence",
    unit: "1",
    description: "1 while more than half of the hosts are silent, so that none is taken for UNAVAILABLE.",
  }),
  work: metric({
    kind: "gauge",
    name: "diskmesh.work",
    unit: "{item}",
    description: "What goes on behind the calls, by queue: ready to begin, running, or waiting to be tried again.",
    labels: { queue: QUEUES, state: QUEUE_STATES },
  }),
  phase: metric({
    kind: "histogram",
    name: "diskmesh.attach.phase.duration",
    unit: "s",
    description:
      "How long each phase took. Of the attach or detach of a device: queue, until its first order was sent; order, until the " +
      "agent answered. Of the publication or unpublication of a disk: session, until every device granted it; export, " +
      "until the host had begun or ended its export; total, the whole.",
    labels: {
      operation: ["attach", "detach", "publish", "unpublish"],
      phase: ["queue", "order", "session", "export", "total"],
    },
    buckets: DURATION_BUCKETS_SECONDS,
  }),
};
