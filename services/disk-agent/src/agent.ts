import { randomUUID } from "node:crypto";
import * as nodeFiles from "node:fs/promises";
import { AgentRegistrationServiceDefinition } from "@diskmesh/api/internal";
import { formatHostPort, type Logger, messageOf } from "@diskmesh/domain";
import { FolderLock } from "@diskmesh/file-lock";
import { createClient } from "@diskmesh/rpc";
import { AbruptEnds, CsiDrivers, createRpcServer, type Lifecycle, Readiness, systemClock } from "@diskmesh/service";
import { type BaseFolder, makeBaseFolder } from "./base/base-folder.js";
import type { AgentConfig } from "./base/config.js";
import { IoCounters } from "./base/io-counters.js";
import { AGENT_LIMITS, type AgentLimits } from "./base/limits.js";
import { repeat } from "./base/repeat.js";
import type { Ledger } from "./cache/ledger.js";
import { openLedger } from "./cache/open-ledger.js";
import type { AgentContext } from "./calls/context.js";
import { RegistrationDue } from "./calls/registration-due.js";
import { RegistryContact } from "./calls/registry-contact.js";
import { deviceOffers } from "./devices/device-offers.js";
import { DeviceTable } from "./devices/device-table.js";
import { Prober } from "./devices/prober.js";
import { addNewDevices } from "./devices/reload-devices.js";
import { Rescan } from "./devices/rescan.js";
import { clearLeftovers, diskLinks, serveDirectorFace } from "./director-face.js";
import { VendorCalls } from "./drivers/vendor-calls.js";
import type { AgentEdges } from "./edges.js";
import { BlockDevices, endBlockDevices, whyNoBlockDevices } from "./engines/block-devices.js";
import { endFormerDaemons } from "./engines/former-daemons.js";
import { type Chosen, chooseEngine } from "./exports/choose-engine.js";
import { ExportTable } from "./exports/export-table.js";
import { machineBootId } from "./host/machine-boot-id.js";
import { Claims } from "./labels/claims.js";
import { Copier } from "./mirror/copier.js";
import { NbdServer } from "./nbd/server.js";
import { AttachOrders } from "./orders/attach-orders.js";
import { observeDevices } from "./orders/device-metrics.js";
import { Eraser } from "./orders/eraser.js";
import { FollowDrives } from "./orders/follow-drives.js";
import { Labels } from "./orders/labels.js";
import { SessionOrders } from "./orders/session-orders.js";
import { linkOverNbd } from "./remote/device-link.js";
import { DeviceListener } from "./remote/device-listener.js";
import { noteRunningConfig } from "./running-config.js";
import { addServices } from "./services.js";
import { makeEngines, openAnyPart, serveHolders } from "./wiring.js";
import { listenForCsiDrivers } from "./workers/csi-socket.js";
import type { RegistrationOptions } from "./workers/heartbeats.js";
import { keepRegistered } from "./workers/registration.js";
import { tidyWireGuard } from "./workers/wireguard-check.js";

/** Starts cache, devices and exports, then the APIs. Returns the function that applies a reloaded config. */
export async function startAgent(
  lifecycle: Lifecycle,
  config: AgentConfig,
  log: Logger,
  limits = AGENT_LIMITS,
): Promise<(config: AgentConfig) => Partial<AgentConfig>> {
  warnOfSmallThreadPool(log);
  const folders = await makeBaseFolder(config.baseFolder);
  // Locks the base folder, because two agents on one cache would each grant sessions that the other does not know.
  const lock = await FolderLock.take(config.baseFolder, { required: config.requireFileLocks });
  lifecycle.use("base folder lock", async () => lock.release());
  lifecycle.use("mark of a running agent", await AbruptEnds.open({ file: folders.runMark, clock: systemClock, log }));
  await noteRunningConfig(config, log);
  await endFormerDaemons(folders.exports, log);
  const io = new IoCounters();
  lifecycle.use("metrics of I/O", io.observe());
  const edges = systemEdges(config, limits, log, {
    io,
    ...(await chooseEngine(config, log)),
    whyNoBlockDevices: await whyNoBlockDevices(),
  });
  const context = await startHolding(lifecycle, config, { folders, edges, limits, log });
  lifecycle.use("metrics of devices", observeDevices({ ...context, eraser: context.orders.eraser }));
  const links = diskLinks(folders, context);
  await clearLeftovers(folders, context, Object.values(links));
  const readiness = new Readiness({
    needs: ["certificate", "descriptors", "registered", ...(config.nats === undefined ? [] : (["nats"] as const))],
    log,
  });
  const address = await serveRegistryApi(lifecycle, context, readiness);
  registerWithRegistry(lifecycle, context, address, { ...edges, io, readiness });
  watchDevices(lifecycle, context, edges);
  const csiDrivers = lifecycle.use("watch of csi-drivers", new CsiDrivers({ clock: edges.clock, log }));
  lifecycle.use("socket for csi-drivers", await listenForCsiDrivers(folders.csiSocket, csiDrivers, log));
  await serveDirectorFace(lifecycle, context, links, readiness);
  return reloadConfig(context);
}

/**
 * Returns the function that applies the rate of erases and the new devices of a reloaded config. The next registration
 * reports the devices.
 */
function reloadConfig({ config, devices, orders, limits, checks, registrationDue, log }: AgentContext) {
  let present: AgentConfig["devices"] = config.devices;
  let noted = Promise.resolve();
  return ({ devices: wanted, maxEraseBytesPerSecond, log: { level } }: AgentConfig): Partial<AgentConfig> => {
    orders.eraser.setRate(maxEraseBytesPerSecond);
    present = [...addNewDevices(devices, present, wanted, limits.maxDevices)];
    checks.rescan.run().then(
      () => registrationDue.declare(),
      (error: unknown) => log.error({ error: messageOf(error) }, "devices of the reloaded config not found"),
    );
    const inEffect = { ...config, devices: present, maxEraseBytesPerSecond, log: { ...config.log, level } };
    noted = noted.then(() => noteRunningConfig(inEffect, log));
    return { devices: present, maxEraseBytesPerSecond };
  };
}

// Warns of a small thread pool, which does all file I/O: with the default of 4 threads, one hung device can block all
// others. Only the process's environment can change the number of threads.
function warnOfSmallThreadPool(log: Logger): void {
  const threads = Number(process.env.UV_THREADPOOL_SIZE ?? 4);
  if (threads < 32) log.warn({ threads }, "thread pool too small to isolate hung devices; set UV_THREADPOOL_SIZE=64");
}

function systemEdges(
  config: AgentConfig,
  limits: AgentLimits,
  log: Logger,
  found: Chosen & { readonly io: IoCounters } & Pick<AgentEdges, "whyNoBlockDevices">,
): AgentEdges {
  const { tls, registry } = config;
  const common = { tls, defaultDeadlineMs: limits.registerTimeoutMs };
  return {
    clock: systemClock,
    random: Math.random,
    newBootId: randomUUID,
    machineBootId,
    cacheFiles: nodeFiles,
    listenNbd: (options) => NbdServer.listen(options, found.io),
    ...found,
    endBlockDevices,
    linkDevice: linkOverNbd,
    listenForHolders: DeviceListener.start,
    connectRegistry: () =>
      createClient(AgentRegistrationServiceDefinition, {
        ...common,
        address: registry.address,
        serverRole: "disk-registry",
        onUnreached: logNewReasons(log),
      }),
  };
}

/** Returns a function that logs failures by address, and skips a failure with the same reason as the last one. */
function logNewReasons(log: Logger): (address: string, error: Error) => void {
  const told = new Map<string, string>();
  return (address, { message }) => {
    // Removes times from the message, so that the same reason compares equal.
    const reason = message.replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, "");
    if (told.get(address) === reason) return;
    told.set(address, reason);
    log.warn({ address, error: message }, "registry connection failed");
  };
}

/** Loads the agent's cache, opens the allowed devices, and serves the remembered exports. */
export async function startHolding(
  lifecycle: Lifecycle,
  config: AgentConfig,
  options: {
    readonly folders: Pick<BaseFolder, "cacheFile" | "markFile" | "exports" | "driverStates">;
    readonly edges: AgentEdges;
    readonly limits: AgentLimits;
    readonly log: Logger;
  },
): Promise<AgentContext> {
  const { folders, edges, limits, log } = options;
  const now = { nowMs: edges.clock.nowMs(), files: edges.cacheFiles, log };
  const { ledger, cacheIsLost } = await openLedger(config.hostId, folders, now);
  lifecycle.use("cache", ledger);
  const held = makeContext(config, ledger, options);
  const { drainTimeoutMs, startOpenTimeoutMs } = limits;
  lifecycle.use("devices", () => held.devices.stop(drainTimeoutMs));
  // Devices found now are opened at the start, and the first registration reports them.
  await held.checks.rescan.run();
  await held.devices.findLegs();
  await held.exports.adopt();
  await held.devices.start({ waitMs: startOpenTimeoutMs, openNothing: cacheIsLost });
  const context = { ...held, holders: await serveHolders(lifecycle, held, edges) };
  lifecycle.use("erases", context.orders.eraser);
  lifecycle.use("copies", context.orders.copier);
  lifecycle.use("exports", context.exports);
  await context.exports.start(startOpenTimeoutMs);
  return context;
}

function makeContext(
  config: AgentConfig,
  ledger: Ledger,
  options: Parameters<typeof startHolding>[2],
): Omit<AgentContext, "holders"> {
  const { edges, limits, log } = options;
  const { clock, driveErrors, mapper, nvme, opener, random } = edges;
  const { orderTimeoutMs: answerTimeoutMs, maxInFlightIoPerDevice, hangs, maxDevices, maxDevicesPerFile } = limits;
  const registrationDue = new RegistrationDue(new RegistryContact(clock, limits));
  const onChange = () => registrationDue.declare();
  const devices = new DeviceTable({
    devices: config.devices,
    ledger,
    opener,
    mapper,
    nvmeTarget: nvme?.target,
    maxInFlightIoPerDevice,
    answerTimeoutMs,
    hangs,
    clock,
    log,
    onChange,
  });
  const rules = config.discovery.rules.map((rule) => ({
    ...rule,
    maxDevicesPerFile,
    idPrefix: rule.idPrefix ?? config.hostId,
  }));
  const sessions = new SessionOrders(ledger, devices, new Claims({ devices, ledger, log }));
  const bootId = edges.newBootId();
  const wired = { config, limits, devices, ledger, log };
  return {
    config,
    limits,
    bootId,
    ledger,
    devices,
    checks: {
      rescan: new Rescan({ devices, rules, opener, maxDevices, answerTimeoutMs, clock, log, onChange }),
      prober: new Prober({ devices, driveErrors, clock, random, limits: limits.probes }),
    },
    registrationDue,
    orders: {
      attach: new AttachOrders(ledger, devices),
      sessions,
      eraser: new Eraser({
        devices,
        ledger,
        sessions,
        clock,
        chunkBytes: limits.eraseChunkBytes,
        limits: {
          maxAtOnce: limits.maxConcurrentErases,
          maxBytesPerSecond: config.maxEraseBytesPerSecond,
          slowAfterMs: limits.probes.warningAfterMs,
        },
        log,
      }),
      labels: new Labels({ devices, sessions, ledger, opener, onChange }),
      copier: new Copier({
        devices,
        ledger,
        openPart: openAnyPart(wired, edges),
        clock,
        limits: limits.copy,
        log,
      }),
    },
    exports: new ExportTable({
      ledger,
      devices,
      engines: makeEngines(wired, options.folders.exports, edges),
      blockDevices: new BlockDevices({
        hostId: config.hostId,
        folder: options.folders.exports,
        whyNot: edges.whyNoBlockDevices,
        endDevices: edges.endBlockDevices,
        clock,
        log,
      }),
      maxEndedExports: limits.maxEndedExports,
      clock,
      log,
    }),
    vendors: new VendorCalls({
      drivers: config.drivers,
      limits: limits.drivers,
      hostId: config.hostId,
      bootId,
      ...{ offers: deviceOffers(devices, clock, random), stateFolder: options.folders.driverStates },
      clock,
      random,
      log,
    }),
    log,
  };
}

/** Starts the gRPC server. Returns the address at which other hosts reach the agent. */
async function serveRegistryApi(lifecycle: Lifecycle, context: AgentContext, readiness: Readiness): Promise<string> {
  const { config, log } = context;
  lifecycle.use("drivers", context.vendors);
  context.vendors.start();
  const server = await createRpcServer(lifecycle, config, log, readiness);
  addServices(server, () => context);
  lifecycle.use("gRPC server", () => server.drain());
  const port = await server.listen(config.listen);
  readiness.setServing(true);
  log.info({ host: config.listen.host, port, bootId: context.bootId }, "gRPC server started");
  return config.advertisedAddress ?? formatHostPort({ host: config.listen.host, port });
}

/** Keeps the agent registered until the service stops. */
export function registerWithRegistry(
  lifecycle: Lifecycle,
  context: AgentContext,
  address: string,
  edges: Pick<AgentEdges, "clock" | "connectRegistry" | "random"> & Pick<RegistrationOptions, "readiness" | "io">,
): void {
  context.registrationDue.contact.address = address;
  const client = edges.connectRegistry();
  const stop = new AbortController();
  const running = keepRegistered({ ...edges, context, client, signal: stop.signal });
  lifecycle.use("registration", async () => {
    stop.abort(new Error("the agent is stopping"));
    context.registrationDue.declare();
    await running;
    client.close();
  });
}

/** Checks the devices, and the peers of WireGuard, periodically. */
export function watchDevices(
  lifecycle: Lifecycle,
  context: AgentContext,
  { clock, nvme }: Pick<AgentEdges, "clock" | "nvme">,
): void {
  const { limits, checks, ledger, exports, orders, registrationDue, log } = context;
  const stop = new AbortController();
  const common = { clock, log, signal: stop.signal };
  const drives = new FollowDrives({
    ...context,
    labels: orders.labels,
    onChange: () => registrationDue.declare(),
  });
  const lookAgain = () => checks.rescan.run().then(() => drives.look());
  const running = Promise.all([
    repeat({ ...common, what: "device rescan", everyMs: limits.rescanIntervalMs, work: lookAgain }),
    repeat({ ...common, what: "cache check", everyMs: limits.cacheCheckIntervalMs, work: () => ledger.check() }),
    repeat({
      ...common,
      what: "export socket check",
      everyMs: limits.rescanIntervalMs,
      work: () => exports.lookAtSockets(),
    }),
    repeat({
      ...common,
      what: "device health probe",
      everyMs: limits.probeIntervalMs,
      work: () => checks.prober.look(),
    }),
    nvme &&
      repeat({
        ...common,
        what: "WireGuard check",
        everyMs: limits.rescanIntervalMs,
        work: () => tidyWireGuard(nvme, ledger.memory),
      }),
  ]);
  lifecycle.use("device checks", async () => {
    stop.abort(new Error("the agent is stopping"));
    await running;
  });
}
