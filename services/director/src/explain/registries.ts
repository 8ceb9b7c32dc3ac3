import type { AdminServiceDefinition, ExplainResponse } from "@diskmesh/api/common";
import type {
  ActionResult,
  Device,
  Disk,
  DiskPart,
  DiskRegistryServiceDefinition,
  Host,
  ListChangesResponse,
  PoolCapacity,
  Trouble,
} from "@diskmesh/api/registry";
import { HostState } from "@diskmesh/api/registry";
import { messageOf, NotFoundError } from "@diskmesh/domain";
import { allPages, type CallContext, type CallOptions, type Client } from "@diskmesh/rpc";
import type { RegistryDisk } from "./explain-place.js";

type Registry = Client<typeof DiskRegistryServiceDefinition>;

export interface RegistryClients {
  readonly registry: Pick<
    Registry,
    | "getHost"
    | "listHosts"
    | "getDevice"
    | "listDevices"
    | "getDisk"
    | "getCapacity"
    | "listChanges"
    | "getIoTotals"
    | "listFleetEvents"
    | "watchHosts"
    | "watchDevices"
    | "watchDisks"
    | "setHostState"
    | "fenceHost"
    | "removeHost"
    | "addHost"
    | "cancelMove"
    | "migrateDisk"
    | "undeleteDisk"
  >;
  readonly admin: Pick<Client<typeof AdminServiceDefinition>, "explain">;
}

interface HostsOfVm {
  readonly hostIds: readonly string[];
  /** True when all registries report that none of their hosts is the VM. */
  readonly isNowhere: boolean;
  /** Error messages of registries that did not answer. */
  readonly unanswered: readonly string[];
}

const PAGE_SIZE = 1_000;

/** The disk registries of the director's hosts. */
export class Registries {
  constructor(private readonly clients: readonly RegistryClients[]) {}

  /** Returns the registries with display names. */
  named(): { readonly name: string; readonly clients: RegistryClients }[] {
    const isOne = this.clients.length === 1;
    return this.clients.map((clients, index) => ({
      name: isOne ? "disk-registry" : `disk-registry ${index + 1}`,
      clients,
    }));
  }

  /**
   * Returns the answer of the first registry that knows the subject; undefined when none does. Throws when a registry
   * that may know the subject does not answer.
   */
  explain(
    subject: Parameters<RegistryClients["admin"]["explain"]>[0]["subject"],
    { signal }: Pick<CallContext, "signal">,
  ): Promise<ExplainResponse | undefined> {
    return this.#first(({ admin }) => {
      signal.throwIfAborted();
      return admin.explain({ subject }, { signal });
    });
  }

  /** Returns the hosts of a VM by VM CID from all registries that answer, and the errors of the others. */
  async hostsOf(vmCid: string, { signal }: Pick<CallContext, "signal">): Promise<HostsOfVm> {
    const found = this.clients.map(async ({ registry }) => (await registry.listHosts({ vmCid }, { signal })).hosts);
    const settled = await Promise.allSettled(found);
    return {
      hostIds: settled.flatMap((each) => (each.status === "fulfilled" ? each.value.map(({ hostId }) => hostId) : [])),
      isNowhere: settled.length > 0 && settled.every((each) => each.status === "fulfilled" && each.value.length === 0),
      unanswered: settled.flatMap((each) => (each.status === "rejected" ? [messageOf(each.reason)] : [])),
    };
  }

  /**
   * Returns why the host of a VM is lost to a disk: the disk is fenced from it, or it is UNAVAILABLE or DEAD. Undefined
   * when no registry says so in time. An empty disk ID asks for the host alone.
   */
  async whyLost(
    vmCid: string,
    diskId: string,
    options: Pick<CallOptions, "signal" | "deadlineMs">,
  ): Promise<string | undefined> {
    const found = this.clients.map(async ({ registry }) => {
      const [{ hosts }, { disk }] = await Promise.all([
        registry.listHosts({ vmCid }, options),
        diskId === "" ? { disk: undefined } : registry.getDisk({ diskId }, options),
      ]);
      const host = hosts.find(({ assignment }) => assignment?.vmCid === vmCid);
      if (host === undefined) return undefined;
      if (disk?.fence?.hostId === host.hostId) return `disk ${diskId} is fenced from host ${host.hostId}`;
      const isLost = host.state === HostState.UNAVAILABLE || host.state === HostState.DEAD;
      return isLost ? `host ${host.hostId} is ${host.state.replace("HOST_STATE_", "")}` : undefined;
    });
    const settled = await Promise.allSettled(found);
    return settled.flatMap((each) => (each.status === "fulfilled" ? (each.value ?? []) : []))[0];
  }

  /** Returns the ids of all hosts, sorted. Throws when a registry does not answer. */
  async hostIds({ signal }: Pick<CallContext, "signal">): Promise<string[]> {
    const found = this.clients.map(({ registry }) =>
      allPages(async (pageToken) => {
        const { hosts, nextPageToken } = await registry.listHosts({ pageToken, pageSize: PAGE_SIZE }, { signal });
        return { items: hosts.map(({ hostId }) => hostId), nextPageToken };
      }),
    );
    return [...new Set((await Promise.all(found)).flat())].sort();
  }

  /** Returns the devices of a host, at most 1,000 per registry. */
  async devicesOf(hostId: string): Promise<Device[]> {
    const found = this.clients.map(async ({ registry }) => registry.listDevices({ hostId, pageSize: PAGE_SIZE }));
    return (await Promise.all(found)).flatMap(({ devices }) => devices);
  }

  /** Returns the device as a list; an empty list when no registry has it. */
  async deviceById(deviceId: string): Promise<Device[]> {
    const answer = await this.#first(({ registry }) => registry.getDevice({ deviceId }));
    return answer?.device === undefined ? [] : [answer.device];
  }

  /** Returns the space of the pools of all registries that answer. */
  async pools(options: Pick<CallOptions, "signal" | "deadlineMs">): Promise<PoolCapacity[]> {
    const settled = await Promise.allSettled(this.clients.map(({ registry }) => registry.getCapacity({}, options)));
    return settled.flatMap((each) => (each.status === "fulfilled" ? each.value.pools : []));
  }

  /** Returns the newest kept changes of a host, device or disk; undefined when no registry knows it. */
  changesOf(
    request: Parameters<Registry["listChanges"]>[0],
    { signal }: Pick<CallContext, "signal">,
  ): Promise<ListChangesResponse | undefined> {
    return this.#first(({ registry }) => registry.listChanges(request, { signal }));
  }

  /** Returns the host; undefined when no registry knows it. */
  async hostById(hostId: string, { signal }: Pick<CallContext, "signal">): Promise<Host | undefined> {
    return (await this.#first(({ registry }) => registry.getHost({ hostId }, { signal })))?.host;
  }

  /** Returns the parts of a disk, and the devices of all their copies but the purged ones; no part of an unknown disk. */
  async partsOfDisk(diskId: string): Promise<{
    readonly parts: DiskPart[];
    readonly devices: Device[];
    readonly disk?: Disk | undefined;
  }> {
    const found = await this.#first(async ({ registry }) => {
      const { disk } = await registry.getDisk({ diskId });
      const parts = disk?.parts ?? [];
      const present = parts.flatMap(({ copies }) => copies).filter(({ hostId }) => hostId !== "");
      const answers = await Promise.all(present.map(({ deviceId }) => registry.getDevice({ deviceId })));
      return { disk, parts, devices: answers.flatMap(({ device }) => device ?? []) };
    });
    return found ?? { parts: [], devices: [] };
  }

  /**
   * Returns a registry's record of the disk; undefined when no registry knows it. Throws when a registry that may know it
   * does not answer.
   */
  async recordOfDisk(diskId: string, { signal }: Pick<CallContext, "signal">): Promise<RegistryDisk | undefined> {
    const { disk } = (await this.#first(({ registry }) => registry.getDisk({ diskId }, { signal }))) ?? {};
    return disk && { place: disk.publication, isFenced: disk.fence !== undefined };
  }

  /** Cancels the moves of a disk at the registry that knows the disk. */
  async cancelMove(diskId: string, { requestId }: Pick<CallContext, "requestId">): Promise<void> {
    const answer = await this.#first(({ registry }) => registry.cancelMove({ diskId }, { requestId }));
    if (answer === undefined) throw new NotFoundError("no disk-registry of nodes.registries has this disk");
  }

  /** Moves a disk to a host, or to any other hosts for an empty host id, at the registry that knows the disk. */
  async migrateDisk(
    request: Parameters<Registry["migrateDisk"]>[0],
    { requestId }: Pick<CallContext, "requestId">,
  ): Promise<void> {
    const answer = await this.#first(({ registry }) => registry.migrateDisk(request, { requestId }));
    if (answer === undefined) throw new NotFoundError("no disk-registry of nodes.registries has this disk");
  }

  /** Has the registry that keeps the deleted disk bring it back; changes nothing when none does. */
  async undeleteDisk(diskId: string, options: Pick<CallOptions, "signal">): Promise<void> {
    await this.#first(({ registry }) => registry.undeleteDisk({ diskId }, options));
  }

  /** Returns the trouble of a disk; undefined when nothing is wrong, and for an unknown disk. */
  async troubleOfDisk(diskId: string, { signal }: Pick<CallContext, "signal">): Promise<Trouble | undefined> {
    return (await this.#first(({ registry }) => registry.getDisk({ diskId }, { signal })))?.disk?.trouble;
  }

  /**
   * Sets the state of a host at the registry that knows the host. The registry's event gets the request id of `call`.
   */
  setHostState(
    request: Parameters<Registry["setHostState"]>[0],
    { requestId }: Pick<CallContext, "requestId">,
  ): ReturnType<Registry["setHostState"]> {
    return this.#ofHost(({ registry }) => registry.setHostState(request, { requestId }));
  }

  /** Fences a host; chooses the registry as `setHostState` does. */
  fenceHost(
    request: Parameters<Registry["fenceHost"]>[0],
    { requestId }: Pick<CallContext, "requestId">,
  ): ReturnType<Registry["fenceHost"]> {
    return this.#ofHost(({ registry }) => registry.fenceHost(request, { requestId }));
  }

  /** Removes a host; chooses the registry as `setHostState` does. */
  async removeHost(
    request: Parameters<Registry["removeHost"]>[0],
    { requestId }: Pick<CallContext, "requestId">,
  ): Promise<ActionResult> {
    return this.#action(({ registry }) => registry.removeHost(request, { requestId }));
  }

  /** Adds a host; chooses the registry as `setHostState` does. */
  async addHost(
    request: Parameters<Registry["addHost"]>[0],
    { requestId }: Pick<CallContext, "requestId">,
  ): Promise<ActionResult> {
    return this.#action(({ registry }) => registry.addHost(request, { requestId }));
  }

  #action(ask: (clients: RegistryClients) => Promise<{ readonly result?: ActionResult | undefined }>) {
    return this.#ofHost(async (clients) => {
      const { result } = await ask(clients);
      if (result === undefined) throw new TypeError("the answer has no result");
      return result;
    });
  }

  async #ofHost<Answer>(ask: (clients: RegistryClients) => Promise<Answer>): Promise<Answer> {
    const answer = await this.#first(ask);
    if (answer === undefined) throw new NotFoundError("no disk-registry of nodes.registries has this host");
    return answer;
  }

  /** Asks the registries one by one; returns the first answer that is not NOT_FOUND. */
  async #first<Answer>(ask: (clients: RegistryClients) => Promise<Answer>): Promise<Answer | undefined> {
    let failure: unknown;
    for (const clients of this.clients) {
      try {
        return await ask(clients);
      } catch (error) {
        if (!(error instanceof NotFoundError)) failure ??= error;
      }
    }
    if (failure !== undefined) throw failure;
    return undefined;
  }
}
