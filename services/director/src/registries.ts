import type { AdminServiceDefinition, ExplainResponse } from "@diskmesh/api/common";
import type { DiskRegistryServiceDefinition } from "@diskmesh/api/registry";
import { NotFoundError } from "@diskmesh/domain";
import type { Client } from "@diskmesh/rpc";

export interface RegistryClients {
  readonly registry: Pick<Client<typeof DiskRegistryServiceDefinition>, "getHost" | "listHosts">;
  readonly admin: Pick<Client<typeof AdminServiceDefinition>, "explain">;
}

/** The disk registries that know the director's hosts, asked why things of theirs are as they are. */
export class Registries {
  constructor(private readonly clients: readonly RegistryClients[]) {}

  /** What the first one that knows it says; undefined: none does. Throws when one that may cannot be asked. */
  async explain(
    subject: Parameters<RegistryClients["admin"]["explain"]>[0]["subject"],
  ): Promise<ExplainResponse | undefined> {
    let failure: unknown;
    for (const { admin } of this.clients) {
      try {
        return await admin.explain({ subject });
      } catch (error) {
        if (!(error instanceof NotFoundError)) failure ??= error;
      }
    }
    if (failure !== undefined) throw failure;
    return undefined;
  }

  /** The hosts that are a VM, by what a fleet's CPI calls it; none where no registry answers. */
  async hostsOf(vmCid: string): Promise<string[]> {
    const found = this.clients.map(async ({ registry }) => (await registry.listHosts({ vmCid })).hosts);
    const settled = await Promise.allSettled(found);
    return settled.flatMap((each) => (each.status === "fulfilled" ? each.value.map(({ hostId }) => hostId) : []));
  }
}
