import { readFileSync } from "node:fs";
import { join } from "node:path";
import { DriverError, InvalidStateError, silentLogger } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { DriverHost, driversConfig } from "@diskmesh/driver/host";
import { SAMPLE_DRIVER } from "@diskmesh/driver/testing";
import { temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import type { DirectorTables } from "../store/schema.js";
import type { JobOf } from "../store/task.js";
import type { Step } from "../tasks/job.js";
import type { TaskRun } from "../tasks/task-run.js";
import { CallMemory } from "./call-memory.js";
import { callVendorMethod } from "./call-vendor-method.js";
import type { VendorJobContext } from "./context.js";

const TASK_ID = 7;

describe("a driver's asynchronous method in the director", () => {
  let host: DriverHost;
  let memory: CallMemory;
  let file: string;

  before(async () => {
    const drivers = driversConfig.parse([{ package: SAMPLE_DRIVER }]);
    host = new DriverHost({ drivers, random: Math.random, log: silentLogger });
    await host.settled();
  });
  after(() => host.close());
  beforeEach(() => {
    memory = new CallMemory();
    file = join(temporaryFolder(), "noted");
  });

  function attempt(begunOn: string | undefined, startId = "this start"): ReturnType<Step["run"]> {
    const job: JobOf<"call_vendor_method"> = {
      type: "call_vendor_method",
      nodeId: "",
      driver: "sample",
      method: "d_login_async",
      httpMethod: "POST",
      args: { file },
      secretArgs: ["password"],
      exclusiveLock: false,
      ...(begunOn !== undefined && { begunOn }),
    };
    const vendors = { host, memory, startId, callTimeoutMs: 60_000 };
    const run = {
      taskId: TASK_ID,
      checkpoint: () => {},
      stopped: new AbortController().signal,
      stage: (_stage: string, _what: string, work: () => Promise<string>) => work(),
    };
    const context = { vendors } as unknown as VendorJobContext;
    return callVendorMethod(context, job, {} as DirectorTables, TASK_ID).run(run as unknown as TaskRun);
  }

  const timesRun = (): number => readFileSync(file, "utf8").split("\n").length - 1;

  it("requested again because its end could not be recorded -> reported again, and not run again", async () => {
    memory.keepSecrets(TASK_ID, { password: "hunter2-secret" });
    const result = await attempt("this start");
    expect(result).to.equal('"logged in with <redacted>"');
    expect(await attempt("this start")).to.equal(result);
    expect(timesRun()).to.equal(1);
  });

  it("begun by a director process that has ended -> the outcome is unknown", async () => {
    const error = await rejection(attempt("another start"), DriverError, "the director ended while the method ran");
    expect(error.outcome).to.equal("unknown");
  });

  it("secret arguments of a director process that has ended -> not called", async () => {
    const error = await rejection(attempt(undefined), InvalidStateError, "secret arguments (password)");
    expect(error.outcome).to.equal("not_done");
  });
});
