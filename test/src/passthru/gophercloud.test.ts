import { execFile } from "node:child_process";
import { cpSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { messageOf } from "@diskmesh/domain";
import { leaveToVerify, skipBecause, skipWithout, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { repositoryFolder } from "../repository-folder.js";
import { PassthruScene, SAMPLE_NODES } from "./scene.js";

const run = promisify(execFile);

const SOURCES = join(repositoryFolder, "test/src/foreign-clients/gophercloud");
/** Generous, because a cold build takes minutes on busy cores. */
const BUILD_TIMEOUT_MS = 15 * 60_000;
const DOWNLOAD_TIMEOUT_MS = 2 * 60_000;
const CALLS_TIMEOUT_MS = 2 * 60_000;

describe("vendor passthru, the stock clients: gophercloud", () => {
  before(function () {
    leaveToVerify(this);
    skipWithout(this, "go");
  });
  const scene = PassthruScene.forAllTests(SAMPLE_NODES);

  it("lists nodes, drivers and their methods, calls methods, and reads each refusal", async function () {
    this.timeout(BUILD_TIMEOUT_MS);
    const folder = temporaryFolder();
    cpSync(SOURCES, folder, { recursive: true });
    await run("go", ["-C", folder, "mod", "download"], { timeout: DOWNLOAD_TIMEOUT_MS }).catch((error) =>
      skipBecause(this, `the Go module of gophercloud cannot be had: ${messageOf(error)}`),
    );
    await run("go", ["-C", folder, "build", "-o", "client", "."], { timeout: BUILD_TIMEOUT_MS });
    const { endpoint, caFile } = scene;
    const { stdout } = await run(join(folder, "client"), [endpoint, caFile], { timeout: CALLS_TIMEOUT_MS });
    expect(JSON.parse(stdout)).to.deep.equal({
      nodes: ["host-1", "host-2"],
      detailed: ["host-2", "host-1"],
      filtered: [],
      maintenance: false,
      power: false,
      ports: 0,
      driver: "sample",
      properties: 0,
      node_method: ["POST"],
      has_d_echo: true,
      sync: [200, true],
      async: 202,
      echoed: { http_method: "PUT", kw: { a: 1 } },
      refused: {
        unknown_node: 404,
        unknown_driver: 404,
        missing_node_method: 400,
        missing_driver_method: 400,
        delete: 405,
        maintenance: 405,
      },
    });
  });
});
