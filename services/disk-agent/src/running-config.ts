import { readFile } from "node:fs/promises";
import { isDeepStrictEqual } from "node:util";
import { replaceFile } from "@diskmesh/atomic-file";
import { type Logger, messageOf } from "@diskmesh/domain";
import { changedKeys } from "@diskmesh/service";
import { baseFolderPaths } from "./base/base-folder.js";
import type { AgentConfig } from "./base/config.js";
import { AGENT_LIMITS } from "./base/limits.js";
import { agentOf } from "./commands/status.js";
import { addNewDevices } from "./devices/reload-devices.js";

type Devices = readonly AgentConfig["devices"][number][];

/** Writes the config in effect to the base folder, where `--check-config` compares another one with it. */
export async function noteRunningConfig(config: AgentConfig, log: Logger): Promise<void> {
  const { runningConfig } = baseFolderPaths(config.baseFolder);
  try {
    await replaceFile(runningConfig, `${JSON.stringify(config)}\n`);
  } catch (error) {
    log.warn({ file: runningConfig, error: messageOf(error) }, "running config not written");
  }
}

/** Returns what a config would change on this host's running agent, a line each; nothing without such an agent. */
export async function compareWithRunning(config: AgentConfig): Promise<readonly string[]> {
  const agent = await agentOf(config.baseFolder);
  if (agent === undefined) return [];
  const { runningConfig } = baseFolderPaths(config.baseFolder);
  let running: AgentConfig;
  try {
    running = JSON.parse(await readFile(runningConfig, "utf8"));
  } catch (error) {
    return [`${agent} runs, but its config cannot be read: ${messageOf(error)}`];
  }
  const lines = changesOf(running, JSON.parse(JSON.stringify(config)));
  return [`the running agent is ${agent}`, ...(lines.length === 0 ? ["  nothing changes"] : lines)];
}

function changesOf(running: AgentConfig, wanted: AgentConfig): string[] {
  const added: Devices[number][] = [];
  const table = {
    all: () => running.devices.map(({ deviceId: id, path }) => ({ id, file: { path } })),
    add: (entry: Devices[number]) => added.push(entry),
  };
  const { maxEraseBytesPerSecond } = wanted;
  const devices = addNewDevices(table, running.devices, wanted.devices, AGENT_LIMITS.maxDevices);
  const onReload = [
    ...added.map(({ deviceId, path }) => `adds device ${deviceId} at ${path}`),
    ...(running.log.level === wanted.log.level ? [] : [`sets log.level to ${wanted.log.level}`]),
    ...(running.maxEraseBytesPerSecond === maxEraseBytesPerSecond
      ? []
      : [`sets maxEraseBytesPerSecond to ${maxEraseBytesPerSecond}`]),
  ];
  const inEffect = { ...running, devices, maxEraseBytesPerSecond, log: { ...running.log, level: wanted.log.level } };
  const onRestart = changedKeys({ ...inEffect, devices: [] }, { ...wanted, devices: [] });
  return [
    ...onReload.map((what) => `  SIGHUP ${what}`),
    ...[...onRestart, ...devicesOnRestart(devices, wanted.devices)].map((what) => `  a restart changes ${what}`),
  ];
}

/** Names the devices that differ from those in effect after SIGHUP. */
function devicesOnRestart(present: Devices, wanted: Devices): string[] {
  const findIn = (devices: Devices, { deviceId }: Devices[number]) =>
    devices.find((each) => each.deviceId === deviceId);
  return [
    ...present.flatMap((entry) => {
      const other = findIn(wanted, entry);
      if (other === undefined) return [`device ${entry.deviceId}: it is removed`];
      return isDeepStrictEqual(entry, other) ? [] : [`device ${entry.deviceId}`];
    }),
    ...wanted
      .filter((entry) => findIn(present, entry) === undefined)
      .map(({ deviceId, path }) => `device ${deviceId}: it is added, and another device uses ${path} until then`),
  ];
}
