import { Readable } from "node:stream";
import { InvalidArgumentError } from "@diskmesh/domain";
import type { FastifyRequest } from "fastify";
import { type Answer, empty } from "./answer.js";
import type { Context } from "./context.js";

/**
 * Receives the logs that an agent was asked to upload. The route needs no login, because the upload carries its own
 * authorization header.
 */
export async function takeLogs(context: Context, request: FastifyRequest): Promise<Answer> {
  const { upload } = request.params as { readonly upload: string };
  if (!(request.body instanceof Readable)) throw new InvalidArgumentError("the body is empty: send the logs as a tgz");
  await context.logFiles.receive(upload, request.headers.authorization, request.body);
  return empty(201);
}
