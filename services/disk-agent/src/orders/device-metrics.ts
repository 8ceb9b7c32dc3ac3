import { allEnded, observe } from "@diskmesh/metrics";
import { agentMetrics, DEVICE_OPERATIONS, deviceMetrics, MAX_NAMED_DEVICES } from "../base/metrics.js";
import type { Ledger } from "../cache/ledger.js";
import type { Device } from "../devices/device.js";
import type { Sums } from "../devices/operation-sums.js";
import type { Eraser } from "./eraser.js";
import { waitingBelow } from "./session-orders.js";

interface Observed {
  readonly devices: { all(): readonly Device[] };
  readonly ledger: Ledger;
  readonly eraser: Eraser;
}

/** Reports the metrics when they are read; returns a function that stops this. */
export function observeDevices({ devices, ledger, eraser }: Observed): () => void {
  const named = () => devices.all().slice(0, MAX_NAMED_DEVICES);
  const waits = () => devices.all().flatMap((device) => fenceWait(device, ledger) ?? []);
  return allEnded([
    ...operationMetrics(named),
    observe(deviceMetrics.inFlight, (say) => {
      for (const { id, inFlight } of named()) say(inFlight, { device_id: id });
    }),
    observe(deviceMetrics.oldest, (say) => {
      for (const { id, waiting } of named()) say(waiting.forMs / 1_000, { device_id: id });
    }),
    observe(agentMetrics.fencesWaiting, (say) => say(waits().length)),
    observe(agentMetrics.fencesOldest, (say) => say(Math.max(0, ...waits()) / 1_000)),
    observe(agentMetrics.erasesRunning, (say) => say(eraser.running)),
    observe(agentMetrics.cacheFailing, (say) => say(ledger.problem === undefined ? 0 : 1)),
  ]);
}

function operationMetrics(named: () => readonly Device[]): (() => void)[] {
  const each = (declaration: (typeof deviceMetrics)["operations"], read: (sums: Sums) => number) =>
    observe(declaration, (say) => {
      for (const { id, sums } of named())
        for (const operation of DEVICE_OPERATIONS) say(read(sums.of(operation)), { device_id: id, operation });
    });
  return [
    each(deviceMetrics.operations, ({ operations }) => operations),
    each(deviceMetrics.errors, ({ errors }) => errors),
    each(deviceMetrics.time, ({ timeMs }) => timeMs / 1_000),
  ];
}

/** Returns for how long I/O of a fenced session has been on the device, in ms; undefined without such I/O. */
function fenceWait(device: Device, { memory }: Ledger): number | undefined {
  const { sessions = [] } = memory.devices.get(device.id) ?? {};
  const waits = sessions.flatMap((session) => {
    const lowest = session.ended ? session.number + 1 : session.number;
    return device.isQuietBelow(lowest, session) ? [] : [waitingBelow(device, lowest, session).forMs];
  });
  return waits.length === 0 ? undefined : Math.max(...waits);
}
