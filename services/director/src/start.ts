import { randomUUID } from "node:crypto";
import { CpiServiceService } from "@diskmesh/api/cpi";
import { backoffMs, messageOf, OutdatedError } from "@diskmesh/domain";
import { AgentClient, connectNats } from "@diskmesh/mbus";
import { createClient, RpcServer } from "@diskmesh/rpc";
import { type Lifecycle, type Logger, rpcFailureLogger, systemClock } from "@diskmesh/service";
import type { DirectorConfig } from "./config.js";
import { type Connections, createDirector, openState } from "./context.js";
import type { CpiClient } from "./cpi/cpi-calls.js";
import { addServices } from "./handlers/services.js";
import type { DirectorTablet } from "./schema.js";

const FENCE_BACKOFF = { minDelayMs: 100, maxDelayMs: 2_000 };

/** Starts a director: it serves as soon as its state is loaded, and runs tasks once the dispatcher obeys it alone. */
export async function startDirector(lifecycle: Lifecycle, config: DirectorConfig, log: Logger): Promise<void> {
  const state = await openState(config, lifecycle);
  const connections = await connect(config, lifecycle, log);
  const { context, runner, times, teller, registry } = createDirector(config, state, connections, lifecycle, log);
  const server = new RpcServer({ tls: config.tls, limits: config.rpc, onError: rpcFailureLogger(log) });
  addServices(server, context);
  lifecycle.use("gRPC server", server);
  const port = await server.listen(config.listen);
  server.setServing(true);
  log.info({ address: `${config.listen.host}:${port}`, generation: state.tablet.generation }, "the director serves");
  times.start();
  context.stemcellFiles.sweep();
  await registry.start();
  void fence(connections.cpi, state.tablet, config, lifecycle, log)
    .then(async (fenced) => {
      if (!fenced) return;
      teller.start();
      await runner.start();
    })
    .catch((error: unknown) => lifecycle.fail(error));
}

async function connect(config: DirectorConfig, lifecycle: Lifecycle, log: Logger): Promise<Connections> {
  const cpi = createClient(CpiServiceService, {
    address: config.dispatcher.address,
    tls: config.tls,
    serverRole: "cpi-dispatcher",
    defaultDeadlineMs: config.cpi.callTimeoutMs,
    maxMessageBytes: config.rpc.maxMessageBytes,
  });
  lifecycle.use("CPI client", cpi);
  const nats = await connectNats({ servers: config.nats.servers, tls: config.tls, name: "director", log });
  lifecycle.use("NATS connection", nats);
  const { requestTimeoutMs, attachTimeoutMs: callTimeoutMs, taskPollIntervalMs } = config.agents;
  const agents = new AgentClient({
    nats,
    directorId: randomUUID(),
    requestTimeoutMs,
    callTimeoutMs,
    taskPollIntervalMs,
    log,
  });
  lifecycle.use("agent client", agents);
  return { cpi, agents };
}

/**
 * Makes the dispatcher refuse former directors. Until it answers, what they had started may still be at work. True
 * once it has; false when the service stops before.
 */
async function fence(
  cpi: CpiClient,
  tablet: DirectorTablet,
  config: DirectorConfig,
  lifecycle: Lifecycle,
  log: Logger,
): Promise<boolean> {
  const signal = lifecycle.stopping;
  const request = { directorId: tablet.id, directorGeneration: tablet.generation };
  for (let attempts = 0; ; attempts++) {
    try {
      await cpi.fence(request, { signal, deadlineMs: config.cpi.callTimeoutMs });
      log.info({ generation: tablet.generation }, "the dispatcher obeys this director; tasks run");
      return true;
    } catch (error) {
      if (signal.aborted) return false;
      if (error instanceof OutdatedError) throw error;
      if (attempts % 10 === 0) log.warn({ reason: messageOf(error) }, "cannot fence the dispatcher yet; tasks wait");
      await systemClock.sleep(backoffMs(attempts, FENCE_BACKOFF, Math.random()), signal).catch(() => {});
    }
  }
}
