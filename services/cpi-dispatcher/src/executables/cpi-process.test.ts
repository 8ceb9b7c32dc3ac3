import { randomBytes } from "node:crypto";
import { truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { InvalidCpiResponseError } from "@diskmesh/cpi";
import type { JsonObject } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { resultOf } from "../model/answers.js";
import { writeScript } from "../testing/test-dispatcher.js";
import { AnswerBudget } from "./answer.js";
import { CpiProcess } from "./cpi-process.js";
import { EXECUTABLE_LIMITS } from "./limits.js";
import { RunFolder } from "./run-folder.js";

const MIB = 1024 * 1024;
const CANARY = "canary-5ecre7";

describe("answers of a CPI's executable", () => {
  const limits = { ...EXECUTABLE_LIMITS, callTimeoutMs: 600_000 };
  let folder: string;
  let lines: string[];

  beforeEach(() => {
    folder = temporaryFolder();
    lines = [];
  });

  const answerFile = () => join(folder, "answer");
  async function ask(properties: JsonObject = { password: CANARY }, exitCode = 0): Promise<unknown> {
    const cpi = new CpiProcess({
      name: "a",
      execPath: writeScript(folder, "cpi", `cat ${answerFile()}; exit ${exitCode}`),
      jobsFolder: folder,
      properties,
      limits,
      answerBudget: new AnswerBudget(limits.maxAnswersBytes),
      runFolder: await RunFolder.open(join(folder, "run")),
    });
    const request = { method: "has_vm", args: ["v-1"], apiVersion: 2 } as const;
    const call = {
      signal: new AbortController().signal,
      deadlineAtMs: Date.now() + 60_000,
      requestId: "r",
      directorId: "d",
      stemcellApiVersion: 0,
      preferredApiVersion: 0,
      onLogLine: (line: string) => lines.push(line),
    };
    return cpi.call(request, call, (result) => resultOf.flag("has_vm", result));
  }

  const LINE = `${"x".repeat(80)} ${CANARY}`;
  const CASES: [what: string, log: string, passedOn: number, cut: boolean][] = [
    ["of 2 MB -> all of it", `${LINE}\n`.repeat((2 * MIB) / 95), Math.floor((2 * MIB) / 95), false],
    ["of 8 MB -> as much as there is room for", `${LINE}\n`.repeat((8 * MIB) / 95), Math.floor((4 * MIB) / 95), true],
    ["of 8 MB without a line break -> its beginning", LINE.repeat((8 * MIB) / 94), 1, false],
    ["of 2 million empty lines -> none", "\n".repeat(2_000_000), 0, true],
  ];
  for (const [what, log, passedOn, cut] of CASES)
    it(`a log ${what} is forwarded, and the answer counts`, async () => {
      writeFileSync(answerFile(), JSON.stringify({ result: true, error: null, log }));
      expect(await ask()).to.equal(true);
      const [request, ...said] = lines;
      expect(request).to.match(/^\[a\] \{"method":"has_vm"/);
      if (cut) expect(said.pop()).to.match(/the rest of the log is dropped: more than 4194304 characters/);
      expect(said).to.have.length(passedOn);
      expect(said.every((line) => line.length < 9_000)).to.equal(true);
      expect(said.join("\n").includes(CANARY), "a secret is seen").to.equal(false);
    });

  it("a line cut in the middle of a secret -> no part of the secret is visible", async () => {
    const key = randomBytes(800).toString("hex");
    const log = `${key} `.repeat(limits.maxLogLineLength / key.length + 1);
    writeFileSync(answerFile(), JSON.stringify({ result: true, error: null, log }));
    expect(await ask({ key })).to.equal(true);
    expect(lines.at(-1)).to.match(/^(<redacted> ?)+$/);
  });

  it("properties with the certificates of many CAs -> the CPI is called, and each is redacted", async () => {
    const certificates = Array.from({ length: 4_000 }, () => randomBytes(48).toString("base64"));
    const log = certificates.slice(0, 10).join("\n");
    writeFileSync(answerFile(), JSON.stringify({ result: true, error: null, log }));
    expect(await ask({ password: CANARY, ca: certificates.join("\n") })).to.equal(true);
    expect(lines.slice(1)).to.deep.equal(Array(10).fill("<redacted>"));
  });

  const PRINTED = `no route\u001b[2J\nto ${CANARY}`;
  const SHOWN = "no route\\u001b[2J\\nto <redacted>";
  const result = (value: unknown) => JSON.stringify({ result: value, error: null, log: "" });
  for (const [what, printed, shown, exitCode, okToRetry] of [
    ["text instead of JSON", PRINTED, SHOWN, 0, "false"],
    ["text before a failure", PRINTED, SHOWN, 1, undefined],
    ["a result of another type", result("yes"), result("yes"), 0, "false"],
    ["a long text", "x".repeat(501), `${"x".repeat(500)}...`, 0, "false"],
    [
      "a text whose 500 characters end in a secret",
      `${"x".repeat(494)}${CANARY}`,
      `${"x".repeat(494)}<redacted>...`,
      0,
      "false",
    ],
    ["nothing", "", undefined, 0, "false"],
    ["nothing before a failure", "", undefined, 1, undefined],
  ] as const)
    it(`${what}, exit code ${exitCode} -> the log has it, and ok_to_retry is ${okToRetry}`, async () => {
      writeFileSync(answerFile(), printed);
      const error = await rejection(
        ask({ password: CANARY }, exitCode),
        InvalidCpiResponseError,
        "Invalid CPI response",
      );
      expect(error.about.ok_to_retry).to.equal(okToRetry);
      expect(error.message).not.to.contain("route");
      const prefix = "[a] has_vm printed instead of a valid answer: ";
      expect(lines.slice(1)).to.deep.equal(shown === undefined ? [] : [prefix + shown]);
    });

  it("lines with terminal sequences -> escaped", async () => {
    writeFileSync(answerFile(), JSON.stringify({ result: true, error: null, log: "\u001b]0;title\u0007" }));
    expect(await ask()).to.equal(true);
    expect(lines.at(-1)).to.equal("\\u001b]0;title\\u0007");
  });

  it("64 MiB -> accepted; a byte more -> an error that names the limit", async () => {
    const json = '{"result":true,"error":null,"log":""}';
    writeFileSync(answerFile(), json + " ".repeat(64 * MIB - json.length));
    expect(await ask()).to.equal(true);
    truncateSync(answerFile(), 64 * MIB + 1);
    const error = await rejection(ask());
    expect(error).to.be.instanceOf(InvalidCpiResponseError).with.property("message").that.includes("67108864 bytes");
  });
});
