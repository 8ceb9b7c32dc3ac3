import { expect } from "chai";
import { StandbyApi } from "../testing/standby-api.js";

const REQUEST_TIMEOUT_MS = 3_000;

describe("long responses through a standby director", () => {
  let api: StandbyApi;

  before(async () => {
    api = await StandbyApi.start({}, { tuning: { http: { requestTimeoutMs: REQUEST_TIMEOUT_MS } } });
  });
  after(() => api?.stop());
  afterEach(() => api.reset());

  it("a response that takes longer than the request timeout -> complete", async () => {
    const pieces = 50;
    await api.lead((_request, response) => {
      const endsAtMs = performance.now() + REQUEST_TIMEOUT_MS * 1.2;
      let sent = 0;
      const timer = setInterval(() => {
        response.write("x");
        sent += 1;
        if (sent < pieces || performance.now() < endsAtMs) return;
        clearInterval(timer);
        response.end("END");
      }, REQUEST_TIMEOUT_MS / 60);
      response.once("close", () => clearInterval(timer));
    });
    const { status, body } = await api.client().send("GET", "/resources/1");
    expect(status).to.equal(200);
    expect(body).to.match(/^x{50,}END$/);
  });

  it("a response that does not begin, or stalls in the middle -> ended", async () => {
    await api.lead((request, response) => {
      if (request.url === "/resources/2") response.write("x");
    });
    expect((await api.client().send("GET", "/resources/1")).status).to.be.oneOf([503, 504]);
    const half = await api
      .client()
      .send("GET", "/resources/2")
      .catch((error: Error) => error);
    expect(half).to.be.instanceOf(Error);
  });
});
