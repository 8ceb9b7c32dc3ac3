import { existsSync, realpathSync } from "node:fs";
import { type Logger, silentLogger } from "@diskmesh/domain";
import { FolderLock } from "@diskmesh/file-lock";
import { systemClock } from "@diskmesh/service";
import { baseFolderPaths, makeBaseFolder } from "../base/base-folder.js";
import type { AgentConfig } from "../base/config.js";
import { endBlockDevices } from "../engines/block-devices.js";
import { endFormerDaemons } from "../engines/former-daemons.js";
import { DeviceMapper, whyNoKernel } from "../kernel/device-mapper.js";
import { makeNvme, type Nvme } from "../kernel/nvme.js";
import { type MappedDevice, pathOf } from "../model/mapped-devices.js";

/** Time in ms to wait for the stop of the agent. */
const AGENT_STOP_MS = 10_000;
const RETRY_MS = 100;

/**
 * Ends the block devices of an agent that has stopped, and the storage daemons of one of 0.1.0. Throws UnavailableError
 * while the agent runs, because it would make them again.
 */
export async function endSessions(config: AgentConfig, log: Logger): Promise<void> {
  const { baseFolder, requireFileLocks } = config;
  await makeBaseFolder(baseFolder);
  using _lock = await takeLock(baseFolder, requireFileLocks);
  const left = await endMapped(baseFolder, await makeNvme(config, log));
  log.info({ sessions: await endLeftBlockDevices(baseFolder, log) }, "block devices ended");
  for (const { role, number } of left)
    log.warn({ ...role, path: pathOf(number) }, "device still in use: unmount and close it");
}

/** Ends the block devices of a base folder whose agent does not run. Returns the sessions of those made by nbdfuse. */
export async function endLeftBlockDevices(baseFolder: string, log = silentLogger): Promise<number[]> {
  const { exports } = baseFolderPaths(baseFolder);
  if (!existsSync(exports)) return [];
  await endFormerDaemons(exports, log);
  await endMapped(baseFolder);
  return endBlockDevices(exports, () => false);
}

/** Ends the devices of device-mapper and NVMe/TCP, and returns those that programs of the host still have. */
async function endMapped(baseFolder: string, nvme?: Nvme): Promise<readonly MappedDevice[]> {
  if ((await whyNoKernel()) !== undefined) return [];
  await nvme?.host.endLeftovers(() => false);
  const mapper = new DeviceMapper(realpathSync(baseFolder));
  return mapper.endAll(async () => {
    await nvme?.target.endAll();
    await nvme?.wireguard?.remove();
  });
}

async function takeLock(baseFolder: string, required: boolean): Promise<FolderLock> {
  const untilMs = systemClock.monotonicMs() + AGENT_STOP_MS;
  for (;;)
    try {
      return await FolderLock.take(baseFolder, { required });
    } catch (error) {
      if (systemClock.monotonicMs() > untilMs) throw error;
      await systemClock.sleep(RETRY_MS);
    }
}
