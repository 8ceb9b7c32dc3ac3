import { AbortedError, DriverError, TimeoutError, UnavailableError } from "@diskmesh/domain";
import { expect } from "chai";
import { passthruError } from "./passthru-answer.js";

describe("errors for Ironic clients", () => {
  const NOT_KNOWN = "x; what the method has done is not known";
  const ROWS: readonly [title: string, error: Error, status: number, text: string, retryAfter: string | undefined][] = [
    ["nothing was begun", new UnavailableError("x"), 503, "x", "1"],
    ["an unknown outcome", new UnavailableError("x", { outcome: "unknown" }), 500, NOT_KNOWN, undefined],
    ["it took too long", new TimeoutError("x"), 504, NOT_KNOWN, undefined],
    ["the node is locked", new AbortedError("x", { retryAfterMs: 1_500 }), 409, "x", "2"],
    ["the method failed", new DriverError("x"), 500, "x", undefined],
  ];
  for (const [title, error, status, text, retryAfter] of ROWS)
    it(`${title} -> ${status}${retryAfter === undefined ? ", without an automatic retry by the client" : ""}`, () => {
      const { headers, body, ...answer } = passthruError(error, "r-1");
      expect(answer.status).to.equal(status);
      expect(headers?.["retry-after"]).to.equal(retryAfter);
      const { faultstring } = JSON.parse(JSON.parse(String(body)).error_message);
      expect(faultstring).to.equal(text);
      expect(passthruError(error, "r-1", "python-ironicclient").headers).not.to.have.property("retry-after");
    });
});
