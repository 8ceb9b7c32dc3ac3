import { writeSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { NotFoundError } from "@diskmesh/domain";
import * as z from "zod";
import { listenConfig, tlsConfig } from "../config/pieces.js";
import { secretConfig } from "../config/schema.js";
import { serviceConfig } from "../config/service-config.js";
import { Readiness } from "../health/readiness.js";
import { createRpcServer } from "./rpc-server.js";
import { runService, type StartService } from "./run-service.js";

/** A process for tests of starting and stopping. `behaviour` selects its actions. */
const schema = z.strictObject({
  ...serviceConfig,
  behaviour: z.string(),
  /** Its schema marks it as secret; its name does not. */
  phrase: secretConfig(z.string()).optional(),
  names: z.array(z.string()).default(["a"]),
  listen: listenConfig.optional(),
  tls: tlsConfig.optional(),
});

const say = (text: string): void => {
  writeSync(1, `${text}\n`);
};

const start: StartService<z.output<typeof schema>> = async (lifecycle, config, log) => {
  lifecycle.use("first", () => say("stopped first"));
  lifecycle.use("second", { close: () => say("stopped second") });
  switch (config.behaviour) {
    case "refuse":
      throw new NotFoundError("there is no such thing");
    case "bug":
      throw new TypeError("x is undefined");
    case "fail":
      setTimeout(() => lifecycle.fail(new NotFoundError("the storage is gone")), 50);
      break;
    case "tell-phrase":
      log.info({ text: `it is ${config.phrase}` }, "told");
      break;
    case "throw-later":
      setTimeout(() => {
        throw new TypeError("later");
      }, 50);
      break;
    case "reject-later":
      setTimeout(() => void Promise.reject(new TypeError("rejected")), 50);
      break;
    case "log": {
      let lines = 0;
      const timer = setInterval(() => {
        log.info({ number: lines, text: "x".repeat(1_000) }, "one of many");
        say(`logged ${lines++}`);
      }, 1);
      lifecycle.use("lines", () => clearInterval(timer));
      break;
    }
    case "stuck":
      lifecycle.use("stuck", { waitsFor: "its valve", close: () => new Promise(() => {}) });
      break;
    case "slow-start":
      say("starting");
      await delay(60_000, undefined, { signal: lifecycle.stopping });
      break;
    case "stand-by":
    case "listen": {
      if (!config.listen || !config.tls) throw new Error("listen and tls are needed");
      const { tls, health, rpc } = config;
      const readiness = new Readiness({ needs: [], log });
      const server = await createRpcServer(lifecycle, { tls, rpc, health }, log, readiness);
      lifecycle.use("gRPC server", server);
      await server.listen(config.listen);
      readiness.setServing(config.behaviour === "listen");
      break;
    }
  }
  setInterval(() => {}, 1000);
  say("started");
};

// Small, so that a test fills it soon.
await runService("sample", schema, start, { maxBacklogBytes: 8_192 });
