import { existsSync, readFileSync } from "node:fs";
import type { CallContext, CpiConfig } from "@diskmesh/api/cpi";
import { MemoryCpi } from "@diskmesh/cpi/testing";
import { type TestCertificates, testCertificates } from "@diskmesh/testkit";
import { expect } from "chai";
import { OfferedCpi } from "../cpis/cpi-set.js";
import { processesOf } from "./processes.js";
import { type CpiClient, contextOf, TestDispatcher } from "./test-dispatcher.js";

/** Returns a shell script that records its requests, answers `info` to info and `otherwise` to all other methods. */
export const recording = (info: string, otherwise = "null") => `
read -r request
printf '%s\\n' "$request" >> "$0.requests"
case "$request" in
'{"method":"info"'*) echo '{"result":${info},"error":null,"log":""}' ;;
*) echo '{"result":${otherwise},"error":null,"log":"said"}' ;;
esac`;

export const V2 = '{"api_version":2,"stemcell_formats":["raw"]}';
export const V3 = '{"api_version":3,"stemcell_formats":["ova"]}';
export const answers = (result: string) => recording(V2, result);
export const failsWith = (type: string) => `
read -r request
case "$request" in
'{"method":"info"'*) echo '{"result":${V2},"error":null,"log":""}' ;;
*) echo '{"result":null,"error":{"type":"${type}","message":"m","ok_to_retry":true},"log":""}' ;;
esac`;

/** A disk request with the required fields only. */
export const NEW_DISK = { sizeMib: 7, cloudProperties: { type: "ssd" }, vmCid: "", az: "", token: "" };

/** Starts a dispatcher for each test, with an in-memory CPI of its own and with script CPIs from a cpi-config. */
export class ScriptDispatcher {
  certificates!: TestCertificates;
  dispatcher!: TestDispatcher;
  director!: CpiClient;
  own!: MemoryCpi;

  /** Call within a `describe`. A test that leaves processes behind fails. */
  static forEachTest(): ScriptDispatcher {
    const bench = new ScriptDispatcher();
    before(async () => {
      bench.certificates = await testCertificates();
    });
    beforeEach(async () => {
      bench.own = new MemoryCpi();
      bench.dispatcher = await new TestDispatcher(bench.certificates, [new OfferedCpi("memory", "memory", bench.own)], {
        executables: {
          maxConcurrentCalls: 4,
          // Longer than a short CPI call takes on a busy machine.
          callTimeoutMs: 30_000,
        },
      }).start();
      bench.director = bench.dispatcher.client("director");
    });
    afterEach(async () => {
      await bench.dispatcher.close();
      expect(await processesOf(bench.dispatcher.runFolder), "processes are left").to.deep.equal([]);
    });
    return bench;
  }
}

/** Returns the context of a call by the director that sent cpi-config version `v`. */
export function context(more: object = {}): CallContext {
  return contextOf(1, { cpiConfigVersion: "v", ...more });
}

export interface RecordedRequest {
  readonly method: string;
  readonly arguments: readonly unknown[];
  readonly api_version?: number;
  readonly context: object;
}

export function requestsOf(cpi: CpiConfig): RecordedRequest[] {
  if (!existsSync(`${cpi.execPath}.requests`)) return [];
  const lines = readFileSync(`${cpi.execPath}.requests`, "utf8").trim().split("\n");
  return lines.map((line) => JSON.parse(line));
}
