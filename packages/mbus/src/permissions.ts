import { formatIdentity, type Identity, InvalidArgumentError, parseId } from "@diskmesh/domain";

/** Subjects that one user of the NATS server may publish to and subscribe to. */
export interface MbusPermissions {
  readonly publish: readonly string[];
  readonly subscribe: readonly string[];
}

/**
 * Returns the permissions of a certificate's holder on the NATS server. An agent receives only messages meant for it,
 * and sends replies and heartbeats only under its own id. A director reaches every agent and cannot impersonate any.
 */
export function mbusPermissions(identity: Identity): MbusPermissions {
  if (identity.role === "director")
    return {
      publish: ["agent.*", "hm.director.alert"],
      subscribe: ["director.>", "hm.agent.heartbeat.*", "hm.agent.alert.*", "hm.agent.shutdown.*"],
    };
  if (identity.role === "disk-agent" || identity.role === "vm-agent") {
    const id = parseId("agent_id", identity.name);
    const health = ["heartbeat", "alert", "shutdown"].map((kind) => `hm.agent.${kind}.${id}`);
    return { publish: [...health, `director.*.${id}.*`], subscribe: [`agent.${id}`] };
  }
  throw new InvalidArgumentError(
    `${formatIdentity(identity)} has no business on mbus: give permissions only to directors and agents`,
  );
}
