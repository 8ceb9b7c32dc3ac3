import { SubjectKind } from "@diskmesh/api/common";
import type { Disk, Host, ListChangesResponse } from "@diskmesh/api/registry";
import { messageOf } from "@diskmesh/domain";
import type { DiskPanelAnswer, HostPanelAnswer, JournalAnswer, ServicePanelAnswer } from "@diskmesh/page/rows";
import { type CallContext, msOfDuration } from "@diskmesh/rpc";
import { serviceSummary } from "@diskmesh/tablet-admin";
import type { DirectorConfig } from "../config/config.js";
import type { ExplainContext } from "../explain/context.js";

/** Returns the facts of a disk that its row lacks: a row would change with each heartbeat. */
export function diskPanel({ publication, io }: Disk): DiskPanelAnswer {
  return {
    path: publication?.exportPath ?? "",
    limitsPending: publication?.changePending ?? false,
    ...(io && {
      io: {
        ...{ reads: io.reads, readBytes: io.readBytes, writes: io.writes, writtenBytes: io.writtenBytes },
        ...{ errors: io.errors, isUncounted: io.uncounted, openRequests: io.openRequests },
        ...{ oldestMs: msOfDuration(io.oldestRequestAge), throttledRequests: io.throttledRequests },
        waitsFor: io.waitsForDeviceId ? `device ${io.waitsForDeviceId}` : io.waitsForBlockDevice,
      },
    }),
  };
}

export function hostPanel(host: Host): HostPanelAnswer {
  const { address, stateMessage, createTime, lastHeartbeatTime, maintenanceEndTime } = host;
  return {
    ...{ address, stateMessage },
    ...(createTime && { registeredMs: createTime.getTime() }),
    ...(lastHeartbeatTime && { heardMs: lastHeartbeatTime.getTime() }),
    ...(maintenanceEndTime && { maintenanceEndMs: maintenanceEndTime.getTime() }),
  };
}

export function journalAnswer(answer: ListChangesResponse): JournalAnswer {
  const { changes, areKept, isComplete, keptFromTime, nextPageToken } = answer;
  return {
    changes: changes.map(({ commit, commitTime, cause, details }) => ({
      ...{ commit, cause, details },
      ...(commitTime && { timeMs: commitTime.getTime() }),
    })),
    ...{ areKept, isComplete, hasMore: nextPageToken !== "" },
    ...(keptFromTime && { keptFromMs: keptFromTime.getTime() }),
  };
}

/** Returns the addresses of a service that the director is configured with, and what the process that answers says. */
export async function servicePanel(
  { config, registries, report }: Pick<ExplainContext, "registries" | "report"> & { readonly config: DirectorConfig },
  name: string,
  { signal }: Pick<CallContext, "signal">,
): Promise<ServicePanelAnswer> {
  if (name === "director") {
    const { advertisedAddress, listen } = config;
    return {
      addresses: [advertisedAddress ?? `${listen.host}:${listen.port}`],
      summary: serviceSummary(name, report()),
    };
  }
  const index = registries.named().findIndex((each) => each.name === name);
  const clients = registries.named()[index]?.clients;
  if (clients === undefined) return { addresses: [config.dispatcher.address].flat(), summary: "" };
  const subject = { kind: SubjectKind.SERVICE, name: "disk-registry" };
  const summary = await clients.admin.explain({ subject }, { signal }).then((answer) => answer.summary, messageOf);
  return { addresses: [config.nodes.registries[index]?.address ?? []].flat(), summary };
}
