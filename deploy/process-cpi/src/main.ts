import { readFileSync } from "node:fs";
import { methods } from "./methods.js";
import { answerTo, CpiError, type Request } from "./protocol.js";

/** A CPI program: one request on standard input, one answer on standard output. */
const request = JSON.parse(readFileSync(0, "utf8")) as Request;
const answer = await answerTo(() => {
  const method = Object.hasOwn(methods, request.method) ? methods[request.method] : undefined;
  if (method === undefined) throw new CpiError("InvalidCall", `Method is not known, got '${request.method}'`);
  return method(request);
});
process.stdout.write(JSON.stringify(answer));
