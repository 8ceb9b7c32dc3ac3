import { expect } from "chai";
import { StandbyApi } from "../testing/standby-api.js";

/** Longer than a busy machine keeps a process from running, because a stalled response is ended after this time. */
const REQUEST_TIMEOUT_MS = 20_000;
const TAKES_MS = 1.2 * REQUEST_TIMEOUT_MS;

describe("long responses through a standby director", () => {
  let api: StandbyApi;
  let answers: Record<
    "takes longer" | "does not begin" | "stalls",
    { readonly status?: number; readonly body?: string }
  >;

  before(async () => {
    api = await StandbyApi.start({}, { tuning: { http: { requestTimeoutMs: REQUEST_TIMEOUT_MS } } });
    await api.lead((request, response) => {
      if (request.url === "/resources/2") return;
      response.write("x");
      if (request.url === "/resources/3") return;
      const endsAtMs = performance.now() + TAKES_MS;
      const timer = setInterval(() => {
        if (performance.now() < endsAtMs) return void response.write("x");
        clearInterval(timer);
        response.end("END");
      }, REQUEST_TIMEOUT_MS / 60);
      response.once("close", () => clearInterval(timer));
    });
    const ask = (path: string) =>
      api
        .client()
        .send("GET", path)
        .catch(() => ({}));
    // All at once, because each takes as long as the limit.
    const [long, silent, stalled] = await Promise.all(["/resources/1", "/resources/2", "/resources/3"].map(ask));
    answers = { "takes longer": long ?? {}, "does not begin": silent ?? {}, stalls: stalled ?? {} };
  });
  after(() => api?.stop());

  it("a response that takes longer than the request timeout -> complete", () => {
    expect(answers["takes longer"].status).to.equal(200);
    expect(answers["takes longer"].body).to.match(/^x+END$/);
  });

  it("a response that does not begin -> 503 or 504", () => {
    expect(answers["does not begin"].status).to.be.oneOf([503, 504]);
  });

  it("a response that stalls in the middle -> broken off", () => {
    expect(answers.stalls).to.deep.equal({});
  });
});
