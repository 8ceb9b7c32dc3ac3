import { InvalidArgumentError, NotFoundError } from "@diskmesh/domain";
import type { RecordedAuthority } from "../store/agent-authority.js";
import type { Instance } from "../store/instance.js";
import type { DirectorTables, DirectorTransaction } from "../store/schema.js";

/**
 * Returns the number of agents with a certificate of each authority. An agent with certificates of two authorities
 * counts for both.
 */
export function agentsByAuthority(tables: DirectorTables): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const { agentKeys = [] } of tables.instances.entries())
    for (const authority of new Set(agentKeys.map((key) => key.authority)))
      counts.set(authority, (counts.get(authority) ?? 0) + 1);
  return counts;
}

/** Returns the recorded authorities that neither sign nor have issued a recorded agent certificate. */
export function authoritiesNotUsed(tables: DirectorTables, signing: string): RecordedAuthority[] {
  const counts = agentsByAuthority(tables);
  return [...tables.agentAuthorities.entries()].filter(({ id }) => id !== signing && !counts.has(id));
}

/**
 * Removes an authority and the agent certificates that it issued. NATS then rejects agents without a certificate of
 * another authority until their VMs are recreated, so the caller must list all such agents in `leftBehind`. Throws
 * InvalidArgumentError when `leftBehind` lacks one of these agents.
 */
export function forgetAuthority(
  tx: DirectorTransaction,
  {
    id,
    signing,
    leftBehind,
  }: { readonly id: string; readonly signing: string; readonly leftBehind: readonly string[] },
): void {
  if (tx.agentAuthorities.get(id) === undefined)
    throw new NotFoundError(`authority ${id} is not known: ListAgentAuthorities lists the known authorities`);
  if (id === signing)
    throw new InvalidArgumentError(
      `authority ${id} signs the agents' certificates: configure another signing authority, then forget this authority`,
      {
        about: { field: "authority_id" },
      },
    );
  const holders = [...tx.instances.entries()].filter((instance) => keysBy(instance, id).length > 0);
  const stranded = holders.filter((instance) => keysBy(instance, id).length === instance.agentKeys?.length);
  const missing = stranded.map(agentOf).filter((agentId) => !leftBehind.includes(agentId));
  if (missing.length > 0)
    throw new InvalidArgumentError(
      `${missing.length} agents have no certificate of another authority: renew their certificates, or list them in left_behind: ${missing.slice(0, 10).join(", ")}`,
      { about: { field: "left_behind" } },
    );
  for (const holder of holders)
    tx.instances.put({ ...holder, agentKeys: (holder.agentKeys ?? []).filter((key) => key.authority !== id) });
  tx.agentAuthorities.delete(id);
}

function keysBy({ agentKeys = [] }: Instance, authority: string) {
  return agentKeys.filter((key) => key.authority === authority);
}

function agentOf({ agentId, vmToken }: Instance): string {
  return agentId || vmToken;
}
