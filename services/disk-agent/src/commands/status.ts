import { lstatSync, readlinkSync, statSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { messageOf } from "@diskmesh/domain";
import { FOLDER_LOCK_NAME, holderOf } from "@diskmesh/file-lock";
import { baseFolderPaths } from "../base/base-folder.js";
import type { AgentConfig } from "../base/config.js";
import { readMemory } from "../cache/open-ledger.js";
import { isLiveDevice } from "../engines/block-devices.js";
import { diskIdOfExport } from "../engines/export-path.js";
import type { AgentMemory, DeviceMemory, RememberedSession } from "../model/memory.js";
import { socketState } from "../nbd/dead-socket.js";

/**
 * Prints what this host's agent remembers and what its devices and sockets are now, from files alone: neither a
 * registry nor a running agent is needed, and nothing is changed.
 */
export async function printStatus(config: AgentConfig): Promise<void> {
  const { cacheFile, exports } = baseFolderPaths(config.baseFolder);
  const holder = await agentOf(config.baseFolder);
  const found = await readMemory(config.hostId, cacheFile);
  const lines = [`host ${config.hostId}: ${holder === undefined ? "no agent runs" : `its agent is ${holder}`}`];
  if ("problem" in found) lines.push(`its memory ${cacheFile} cannot be read: ${found.problem}`);
  else lines.push(...memoryLines(found.memory), ...(await deviceLines(config, found.memory)));
  lines.push(...(await exportLines(exports, "memory" in found ? found.memory : undefined)));
  process.stdout.write(`${lines.join("\n")}\n`);
}

function memoryLines({ tabletId, incarnation, tabletGeneration }: AgentMemory): string[] {
  if (tabletId === "") return ["it has never obeyed a registry"];
  return [`it obeys tablet ${tabletId}, incarnation ${incarnation || "unknown"}, generation ${tabletGeneration}`];
}

async function deviceLines({ devices }: AgentConfig, memory: AgentMemory): Promise<string[]> {
  const paths = new Map(devices.map(({ deviceId, path }) => [deviceId, path]));
  const ids = [...new Set([...paths.keys(), ...memory.devices.keys()])].sort();
  const lines = await Promise.all(
    ids.map(async (id) => {
      const path = paths.get(id);
      const where = path === undefined ? "found by a rule of discovery" : `${path}, ${await holderText(path)}`;
      return `  ${id}: ${[where, ...deviceFacts(memory.devices.get(id))].join("; ")}`;
    }),
  );
  return ["devices:", ...(lines.length === 0 ? ["  none"] : lines)];
}

function deviceFacts({ order, sessions = [], floor, hardwareError }: DeviceMemory = {}): string[] {
  return [
    order === undefined
      ? "no order yet"
      : `last order ${order.kind} ${order.tabletGeneration}.${order.deviceGeneration}`,
    ...sessions.map(sessionText),
    ...(floor === undefined ? [] : [`floor ${floor} of other sessions`]),
    ...(hardwareError === undefined ? [] : [`hardware error: ${hardwareError}`]),
  ];
}

function sessionText({ number, purpose, diskId, holderHostId, ended, ...run }: RememberedSession): string {
  const whose =
    purpose === "disk" ? `of disk ${diskId || "unknown"}` : purpose === "erase" ? "of an erase" : "of a label";
  const holder = holderHostId === "" ? "" : `, for host ${holderHostId}`;
  const range = run.sizeBytes === 0 ? "" : ` on ${run.sizeBytes} bytes from byte ${run.offsetBytes}`;
  return `session ${number} ${whose}${range}${ended ? ", ended" : holder}`;
}

/** Exports that the agent remembers, and sockets and devices of others that are left. */
async function exportLines(folder: string, memory: AgentMemory | undefined): Promise<string[]> {
  const names = await readdir(folder).catch(() => []);
  const specs = [...(memory?.exports ?? [])].flatMap(([, { spec }]) => spec ?? []);
  const remembered = new Set<string>(specs.map(({ diskId }) => diskId));
  const left = [...new Set(names.flatMap((name) => diskIdOfExport(name) ?? []))].filter((id) => !remembered.has(id));
  const lines = await Promise.all([
    ...specs.map(async ({ diskId, sessionNumber, readOnly, extents }) => {
      const parts = extents.map(({ deviceId, hostId }) => `${deviceId} on ${hostId}`).join(", ");
      const mode = readOnly ? ", read-only" : "";
      return `  ${diskId}: session ${sessionNumber}${mode}; ${await filesText(folder, diskId, names, sessionNumber)}; bytes on ${parts}`;
    }),
    ...left.map(async (diskId) => `  ${diskId}: not remembered; ${await filesText(folder, diskId, names)}`),
  ]);
  return ["exports:", ...(lines.length === 0 ? ["  none"] : lines)];
}

/** Describes the socket, and the link to the block device, of a disk. */
async function filesText(
  folder: string,
  diskId: string,
  names: readonly string[],
  sessionNumber?: number,
): Promise<string> {
  const own = names.filter((name) => diskIdOfExport(name) === diskId).sort();
  const texts = own.map(async (name) => {
    const path = join(folder, name);
    if (!lstatSync(path).isSymbolicLink()) return `${path} is ${await socketState(path)}`;
    const works = sessionNumber !== undefined && (await isLiveDevice(folder, sessionNumber, path));
    return `${path} is ${works ? `the device ${readlinkSync(path)}` : "a device that has ended"}`;
  });
  return own.length === 0 ? "no socket" : (await Promise.all(texts)).join(", ");
}

async function holderText(path: string): Promise<string> {
  try {
    const holder = await holderOf(statSync(path, { bigint: true }));
    return holder === undefined ? "held by no process" : `held by ${holder}`;
  } catch (error) {
    return messageOf(error);
  }
}

/** Returns the process of the agent that runs with this base folder; undefined without one. */
export async function agentOf(baseFolder: string): Promise<string | undefined> {
  try {
    return await holderOf(statSync(join(baseFolder, FOLDER_LOCK_NAME), { bigint: true }));
  } catch {
    return undefined;
  }
}
