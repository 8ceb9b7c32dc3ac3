import type { DiskId } from "@diskmesh/domain";
import { AgentServer, connectNats } from "@diskmesh/mbus";
import type { Lifecycle, Readiness } from "@diskmesh/service";
import type { BaseFolder } from "./base/base-folder.js";
import type { AgentContext } from "./calls/context.js";
import { diskIdOfExport } from "./engines/export-path.js";
import { DiskLinks } from "./mbus/disk-links.js";
import { agentMethods, heartbeat } from "./mbus/methods.js";
import { clearDeadSockets } from "./nbd/dead-socket.js";

/** Returns the folders of links to disks that the agent's methods over NATS make. */
export function diskLinks({ dynamicDisks, persistentDisks }: BaseFolder, { exports }: AgentContext) {
  const linksIn = (folder: string) => new DiskLinks({ folder, findExport: (diskId) => exports.findSettled(diskId) });
  return { dynamicDisks: linksIn(dynamicDisks), persistentDisks: linksIn(persistentDisks) };
}

/** Removes links and sockets of ended exports that a killed agent left. Must run before the APIs accept new exports. */
export async function clearLeftovers(
  folders: BaseFolder,
  { exports, ledger, log }: AgentContext,
  links: readonly DiskLinks[],
): Promise<void> {
  const isOurs = (name: string): boolean => {
    const diskId = diskIdOfExport(name);
    return diskId !== undefined && exports.find(diskId) === undefined;
  };
  const sockets = await clearDeadSockets(folders.exports, isOurs);
  // Keeps the link of a remembered export even when the agent cannot serve the export now.
  const isExported = (diskId: DiskId): boolean => ledger.memory.exports.get(diskId)?.spec !== undefined;
  const cleared = await Promise.all(links.map((each) => each.clear(folders.exports, isExported)));
  const names = cleared.flat();
  if (sockets.length + names.length > 0) log.info({ sockets, links: names }, "stale sockets and links removed");
}

/** Connects to NATS if it is configured, and answers the methods of the BOSH agent there. */
export async function serveDirectorFace(
  lifecycle: Lifecycle,
  { config, limits, log }: AgentContext,
  links: ReturnType<typeof diskLinks>,
  readiness: Readiness,
): Promise<void> {
  const { hostId, nats: natsConfig } = config;
  if (natsConfig === undefined) return;
  const nats = await connectNats({
    ...natsConfig,
    tls: natsConfig.tls ?? config.tls,
    tlsSection: natsConfig.tls ? "nats.tls" : "tls",
    name: `disk-agent-${hostId}`,
    log,
  });
  lifecycle.use("NATS connection", nats);
  nats.onChange((why) => (why === undefined ? readiness.met("nats") : readiness.missing("nats", why)));
  const server = new AgentServer({
    nats,
    agentId: hostId,
    methods: agentMethods({ hostId, ...links }),
    heartbeat: () => heartbeat(hostId),
    heartbeatIntervalMs: limits.mbusHeartbeatIntervalMs,
    log,
  });
  lifecycle.use("mbus", server);
}
