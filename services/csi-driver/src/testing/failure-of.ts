import { type ServiceError, status } from "@grpc/grpc-js";

/** Returns the name of the status with which the call fails, and its message. Throws when it does not fail. */
export async function failureOf(call: Promise<unknown>): Promise<string> {
  const answer = await call.catch((error: ServiceError) => error);
  if (!(answer instanceof Error)) throw new Error(`the call succeeded: ${JSON.stringify(answer)}`);
  const { code, details } = answer as ServiceError;
  return `${status[code]}: ${details}`;
}
