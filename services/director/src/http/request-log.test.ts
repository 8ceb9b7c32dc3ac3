import type { Logger } from "@diskmesh/domain";
import { expect } from "chai";
import type { FastifyRequest } from "fastify";
import { RequestLog } from "./request-log.js";

describe("the log of requests that fail", () => {
  const early = Object.assign(new Error("Premature close"), { code: "ERR_STREAM_PREMATURE_CLOSE" });
  const ROWS: readonly [what: string, error: Error, isClosed: boolean, level: string][] = [
    ["the answer's stream ends early since its client is gone", early, true, "info"],
    ["the answer's stream ends early, and its client waits", early, false, "error"],
    ["a bug, and the client is gone", new TypeError("x is not a function"), true, "error"],
  ];
  for (const [what, error, isClosed, level] of ROWS)
    it(`${what} -> ${level}`, () => {
      const levels: string[] = [];
      const told = (each: string) => [each, () => levels.push(each)] as const;
      const log = Object.fromEntries(["debug", "info", "warn", "error"].map(told)) as unknown as Logger;
      const request = {
        ...{ method: "GET", id: "req-1", ip: "127.0.0.1", routeOptions: { url: "/disks" } },
        raw: { socket: { destroyed: isClosed } },
      } as unknown as FastifyRequest;
      new RequestLog(log).failed({ error, request, status: 500, login: "ann", isKnown: false });
      expect(levels).to.deep.equal([level]);
    });
});
