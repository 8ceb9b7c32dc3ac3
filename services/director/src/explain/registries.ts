import type { AdminServiceDefinition, ExplainResponse } from "@diskmesh/api/common";
import {
  ActionCode,
  type ActionResult,
  type Device,
  type DiskRegistryServiceDefinition,
  type Event,
} from "@diskmesh/api/registry";
import { messageOf, NotFoundError } from "@diskmesh/domain";
import { allPages, type CallContext, type Client } from "@diskmesh/rpc";

type Registry = Client<typeof DiskRegistryServiceDefinition>;

export interface RegistryClients {
  readonly registry: Pick<
    Registry,
    | "getHost"
    | "listHosts"
    | "listDevices"
    | "listEvents"
    | "watchHosts"
    | "watchDevices"
    | "watchDisks"
    | "setHostState"
    | "fenceHost"
    | "removeHost"
    | "addHost"
  >;
  readonly admin: Pick<Client<typeof AdminServiceDefinition>, "explain">;
}

interface HostsOfVm {
  readonly hostIds: readonly string[];
  /** All registries say that no host of theirs is that VM. */
  readonly isNowhere: boolean;
  /** The answers of registries that could not tell. */
  readonly unanswered: readonly string[];
}

const PAGE_SIZE = 1_000;
const MAX_EVENTS = 100;

/** The disk registries that know the director's hosts, asked why things of theirs are as they are. */
export class Registries {
  constructor(private readonly clients: readonly RegistryClients[]) {}

  /** Each with a name for people. */
  named(): { readonly name: string; readonly clients: RegistryClients }[] {
    const isOne = this.clients.length === 1;
    return this.clients.map((clients, index) => ({
      name: isOne ? "disk-registry" : `disk-registry ${index + 1}`,
      clients,
    }));
  }

  /**
   * Returns the answer of the first registry that knows the subject; undefined when none does. Throws when one that may
   * know it cannot be asked.
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

  /** The hosts that are a VM, by what a fleet's CPI calls it, as far as registries answer, and why others do not. */
  async hostsOf(vmCid: string, { signal }: Pick<CallContext, "signal">): Promise<HostsOfVm> {
    const found = this.clients.map(async ({ registry }) => (await registry.listHosts({ vmCid }, { signal })).hosts);
    const settled = await Promise.allSettled(found);
    return {
      hostIds: settled.flatMap((each) => (each.status === "fulfilled" ? each.value.map(({ hostId }) => hostId) : [])),
      isNowhere: settled.length > 0 && settled.every((each) => each.status === "fulfilled" && each.value.length === 0),
      unanswered: settled.flatMap((each) => (each.status === "rejected" ? [messageOf(each.reason)] : [])),
    };
  }

  /** Ids of all hosts, in their order. Throws when a registry cannot be asked. */
  async hostIds({ signal }: Pick<CallContext, "signal">): Promise<string[]> {
    const found = this.clients.map(({ registry }) =>
      allPages(async (pageToken) => {
        const { hosts, nextPageToken } = await registry.listHosts({ pageToken, pageSize: PAGE_SIZE }, { signal });
        return { items: hosts.map(({ hostId }) => hostId), nextPageToken };
      }),
    );
    return [...new Set((await Promise.all(found)).flat())].sort();
  }

  /** The first thousand devices of a host. */
  async devicesOf(hostId: string): Promise<Device[]> {
    const found = this.clients.map(async ({ registry }) => registry.listDevices({ hostId, pageSize: PAGE_SIZE }));
    return (await Promise.all(found)).flatMap(({ devices }) => devices);
  }

  /** Returns the latest events of an object, newest first. */
  async eventsOf(filter: { readonly [Kind in "hostId" | "deviceId" | "diskId"]?: string }): Promise<Event[]> {
    const found = this.clients.map(({ registry }) => registry.listEvents({ ...filter, pageSize: MAX_EVENTS }));
    return (await Promise.all(found)).flatMap(({ events }) => events);
  }

  /** `call` is whose it is: the registry's event of it has the same request id. */
  setHostState(
    request: Parameters<Registry["setHostState"]>[0],
    { requestId }: Pick<CallContext, "requestId">,
  ): ReturnType<Registry["setHostState"]> {
    return this.#ofHost(({ registry }) => registry.setHostState(request, { requestId }));
  }

  /** Asks the registries as `setHostState` does. */
  fenceHost(
    request: Parameters<Registry["fenceHost"]>[0],
    { requestId }: Pick<CallContext, "requestId">,
  ): ReturnType<Registry["fenceHost"]> {
    return this.#ofHost(({ registry }) => registry.fenceHost(request, { requestId }));
  }

  /** Asks the registries as `setHostState` does. */
  async removeHost(
    request: Parameters<Registry["removeHost"]>[0],
    { requestId }: Pick<CallContext, "requestId">,
  ): Promise<ActionResult> {
    return this.#action(({ registry }) => registry.removeHost(request, { requestId }));
  }

  /** Asks the registries as `setHostState` does. */
  async addHost(
    request: Parameters<Registry["addHost"]>[0],
    { requestId }: Pick<CallContext, "requestId">,
  ): Promise<ActionResult> {
    return this.#action(({ registry }) => registry.addHost(request, { requestId }));
  }

  /** A registry that does not know the host says so in its answer. */
  #action(ask: (clients: RegistryClients) => Promise<{ readonly result?: ActionResult | undefined }>) {
    return this.#ofHost(async (clients) => {
      const { result } = await ask(clients);
      if (result === undefined) throw new TypeError("the answer has no result");
      if (result.code === ActionCode.E_NOT_FOUND) throw new NotFoundError(result.message);
      return result;
    });
  }

  async #ofHost<Answer>(ask: (clients: RegistryClients) => Promise<Answer>): Promise<Answer> {
    const answer = await this.#first(ask);
    if (answer === undefined) throw new NotFoundError("no disk-registry of nodes.registries has such a host");
    return answer;
  }

  /** Asks one registry after the other; returns the first answer that is not NOT_FOUND. */
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
