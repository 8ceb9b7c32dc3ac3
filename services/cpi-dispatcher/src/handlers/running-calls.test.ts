import { existsSync, readFileSync, writeFileSync } from "node:fs";
import type { CpiConfig } from "@diskmesh/api/cpi";
import { reasonOfFailed } from "@diskmesh/cpi/testing";
import { rejection } from "@diskmesh/domain/testing";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { OfferedCpi } from "../cpis/cpi-set.js";
import { processesOf } from "../testing/processes.js";
import { answers, context, requestsOf, ScriptDispatcher, V2 } from "../testing/script-dispatcher.js";
import { TestDispatcher } from "../testing/test-dispatcher.js";

/** The rest of a script runs for all methods except `info`. */
const THEN = `case "$request" in '{"method":"info"'*) exit ;; esac`;

describe("running calls of CPIs", () => {
  const bench = ScriptDispatcher.forEachTest();

  describe("logs", () => {
    const UNTIL_TOLD = 'while [ ! -e "$0.go" ]; do sleep 0.01; done';
    const tell = ({ execPath }: CpiConfig) => writeFileSync(`${execPath}.go`, "");
    const watch = (logId: string) => {
      const lines: string[] = [];
      const controller = new AbortController();
      const ended = (async () => {
        for await (const { line } of bench.director.watchCpiLog({ logId }, { signal: controller.signal }))
          lines.push(line);
      })().catch(() => {});
      const stop = (): Promise<void> => {
        controller.abort();
        return ended;
      };
      return { lines, stop };
    };

    it("arrive line by line while the CPI works, at watchers of the log id, with the answer's log", async () => {
      const script = `${answers("true")}\n${THEN}\necho one >&2; ${UNTIL_TOLD}; echo two >&2`;
      const cpi = bench.dispatcher.scriptCpi("a", script);
      await bench.dispatcher.setCpis([cpi]);
      const [watching, stranger] = [watch("task-1"), watch("task-2")];
      const calling = bench.director.hasVm({ context: context({ cpi: "a", logId: "task-1" }), vmCid: "v-1" });
      await eventually(() => watching.lines.includes("one"));
      expect(watching.lines).to.not.include("two");
      tell(cpi);
      await calling;
      await eventually(() => watching.lines.includes("two") && watching.lines.includes("said"));
      expect(watching.lines.join("\n")).to.match(/\[a\] \{"method":"has_vm","arguments":\["v-1"\]/);
      expect(stranger.lines).to.deep.equal([]);
      await Promise.all([watching.stop(), stranger.stop()]);
    });

    it("reach a watcher that arrives a little late", async () => {
      const script = `${answers("true")}\n${THEN}\necho early >&2; touch "$0.early"; ${UNTIL_TOLD}`;
      const cpi = bench.dispatcher.scriptCpi("a", script);
      await bench.dispatcher.setCpis([cpi]);
      const calling = bench.director.hasVm({ context: context({ cpi: "a", logId: "task-1" }), vmCid: "v" });
      await eventually(() => existsSync(`${cpi.execPath}.early`));
      const watching = watch("task-1");
      await eventually(() => watching.lines.includes("early"));
      tell(cpi);
      await calling;
      await watching.stop();
    });
  });

  describe("calls that end early", () => {
    const SLOW = `read -r request\ncase "$request" in '{"method":"info"'*) echo '{"result":${V2},"error":null,"log":""}' ;; *) sleep 60 & sleep 60 ;; esac`;
    const gone = async () => (await processesOf(bench.dispatcher.runFolder)).length === 0;

    it("are dead before Fence is answered, and later calls wait for that", async () => {
      await bench.dispatcher.setCpis([bench.dispatcher.scriptCpi("a", SLOW)]);
      const calls = Array.from({ length: 3 }, () =>
        reasonOfFailed(bench.director.hasVm({ context: context({ cpi: "a" }), vmCid: "v" })),
      );
      await eventually(async () => (await processesOf(bench.dispatcher.runFolder)).length >= 6);
      await bench.dispatcher.client("director").fence({ directorId: "d1", directorGeneration: 2 });
      expect(await processesOf(bench.dispatcher.runFolder)).to.deep.equal([]);
      expect(await Promise.all(calls)).to.deep.equal(["CANCELLED", "CANCELLED", "CANCELLED"]);
    });

    it("have a longer timeout to create a stemcell", async () => {
      const slow = new TestDispatcher(bench.certificates, [new OfferedCpi("memory", "memory", bench.own)], {
        executables: { callTimeoutMs: 2_000 },
      });
      await slow.start();
      try {
        const script = `${answers('"made"')}\ncase "$request" in *has_vm*) sleep 60 ;; *create_stemcell*) sleep 3 ;; esac`;
        await slow.setCpis([slow.scriptCpi("a", script)]);
        const [client, named] = [slow.client("director"), context({ cpi: "a" })];
        const stemcell = { imagePath: "/image", cloudProperties: {}, tags: {} };
        const { stemcells } = await client.createStemcell({ context: named, ...stemcell });
        expect(stemcells).to.deep.equal([{ cpi: "a", stemcellCid: "made", error: "" }]);
        const error = await rejection(client.hasVm({ context: named, vmCid: "v" }));
        expect(error.message).to.include("longer than 2000 ms (executables.callTimeoutMs)");
      } finally {
        await slow.close();
      }
    });

    it("are ended by their director, by request id, and report their outcome", async () => {
      const finishing = `read -r request\ntrap 'echo "$answer"; exit' TERM\nanswer='{"result":${V2},"error":null,"log":""}'
case "$request" in *has_vm*) answer='{"result":true,"error":null,"log":""}'; sleep 60 & wait ;; *) echo "$answer" ;; esac`;
      const cpis = [bench.dispatcher.scriptCpi("a", SLOW), bench.dispatcher.scriptCpi("b", finishing)];
      await bench.dispatcher.setCpis(cpis);
      const has = (cpi: string, requestId: string) =>
        bench.director.hasVm({ context: context({ cpi, requestId }), vmCid: requestId });
      const [ended, finished, other] = [has("a", "task-1"), has("b", "task-1"), has("a", "task-2")];
      for (const call of [ended, other]) call.catch(() => {});
      await eventually(async () => (await processesOf(bench.dispatcher.runFolder)).length >= 8);
      const request = { directorId: "d1", directorGeneration: 1, requestId: "task-1" };
      expect(await bench.director.endCalls(request)).to.deep.equal({ calls: 2 });
      expect(await reasonOfFailed(ended)).to.equal("CANCELLED");
      expect((await finished).exists).to.equal(true);
      expect(await processesOf(bench.dispatcher.runFolder)).to.have.length(3);
      expect(await bench.director.endCalls(request)).to.deep.equal({ calls: 0 });
      expect(await bench.director.endCalls({ ...request, requestId: "task-2" })).to.deep.equal({ calls: 1 });
      expect(await reasonOfFailed(other)).to.equal("CANCELLED");
    });

    it("are killed when they are cancelled, and at their deadline", async () => {
      await bench.dispatcher.setCpis([bench.dispatcher.scriptCpi("a", SLOW)]);
      await bench.director.info({ context: context({ cpi: "a" }) });
      const controller = new AbortController();
      const request = { context: context({ cpi: "a" }), vmCid: "v" };
      const cancelled = reasonOfFailed(bench.director.hasVm(request, { signal: controller.signal }));
      await eventually(async () => (await processesOf(bench.dispatcher.runFolder)).length >= 3);
      controller.abort();
      await cancelled;
      await eventually(gone);
      // Repeated, because on a busy machine the deadline may pass before the CPI has started.
      await eventually(async () => {
        const late = reasonOfFailed(bench.director.hasVm(request, { deadlineMs: 800 }));
        const begun = eventually(async () => !(await gone()), { timeoutMs: 800 }).then(
          () => true,
          () => false,
        );
        expect(await late).to.equal("TIMEOUT");
        await eventually(gone);
        expect(await begun, "the CPI had begun").to.equal(true);
      });
    });

    it("wait in a queue for the concurrency limit of a CPI", async () => {
      const running = `ls -d "$0".[0-9]* | wc -l`;
      // Calls wait until two run at once, however slowly they start.
      const meet = `until [ -e "$0.two" ]; do [ $(${running}) -lt 2 ] || touch "$0.two"; sleep 0.01; done`;
      const script = `${answers("true")}\n${THEN}\nmkdir "$0.$$"; ${meet}; ${running} >> "$0.most"; sleep 0.1; rmdir "$0.$$"`;
      const cpi = bench.dispatcher.scriptCpi("a", script);
      await bench.dispatcher.setCpis([cpi]);
      const calls = Array.from({ length: 32 }, () =>
        bench.director.hasVm({ context: context({ cpi: "a" }), vmCid: "v" }),
      );
      expect((await Promise.all(calls)).filter(({ exists }) => exists)).to.have.length(32);
      expect(requestsOf(cpi)).to.have.length(33);
      const most = Math.max(...readFileSync(`${cpi.execPath}.most`, "utf8").trim().split("\n").map(Number));
      expect(existsSync(`${cpi.execPath}.two`)).to.equal(true);
      expect(most).to.be.at.most(4);
    });
  });
});
