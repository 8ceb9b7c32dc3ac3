import { parseHostId, parseId } from "@diskmesh/domain";

/** A node of the orchestrator: an instance, or a host. The other one is empty. */
export interface Node {
  readonly instanceId: string;
  readonly hostId: string;
}

export const NO_NODE: Node = { instanceId: "", hostId: "" };

const HOST = "host/";
const INSTANCE = "instance/";

/** Returns the ID of a node: `host/ID` of a host, the bare ID of an instance; empty for neither. */
export function nodeIdOf({ instanceId, hostId }: Node): string {
  return hostId === "" ? instanceId : `${HOST}${hostId}`;
}

/** Parses the ID of a node. An instance may also be `instance/ID`. Throws InvalidArgumentError. */
export function parseNodeId(nodeId: string): Node {
  if (nodeId.startsWith(HOST)) return { instanceId: "", hostId: parseHostId(nodeId.slice(HOST.length), "node_id") };
  const instanceId = nodeId.startsWith(INSTANCE) ? nodeId.slice(INSTANCE.length) : nodeId;
  return { instanceId: parseId("node_id", instanceId), hostId: "" };
}
