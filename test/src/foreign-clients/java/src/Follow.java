import diskmesh.registry.v1.DiskRegistryServiceGrpc;
import diskmesh.registry.v1.WatchDevicesRequest;
import diskmesh.registry.v1.WatchDevicesResponse;
import io.grpc.ChannelCredentials;
import io.grpc.Context;
import io.grpc.Grpc;
import io.grpc.ManagedChannel;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.TlsChannelCredentials;
import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.concurrent.TimeUnit;

/**
 * Follows the devices of a registry in Java, over keepalives and restarts. Arguments: the address of a registry, the files of
 * the authorities, the certificate and its key. Prints each message of the watch as a line. A line on standard input
 * cancels the stream; the end of standard input ends the client.
 */
public final class Follow {
  private static volatile Context.CancellableContext current = Context.current().withCancellation();

  public static void main(String[] args) throws Exception {
    ChannelCredentials mutual =
        TlsChannelCredentials.newBuilder()
            .trustManager(new File(args[1]))
            .keyManager(new File(args[2]), new File(args[3]))
            .build();
    ManagedChannel channel =
        Grpc.newChannelBuilder(args[0], mutual)
            .keepAliveTime(10, TimeUnit.SECONDS)
            .keepAliveTimeout(20, TimeUnit.SECONDS)
            .keepAliveWithoutCalls(true)
            .build();
    var registry = DiskRegistryServiceGrpc.newBlockingStub(channel).withWaitForReady();
    Thread lines = new Thread(Follow::cancelForEachLine);
    lines.setDaemon(true);
    lines.start();
    String token = "";
    while (true) {
      var next = current;
      Context former = current.attach();
      try {
        var request = WatchDevicesRequest.newBuilder().setResumeToken(token).build();
        var stream = registry.watchDevices(request);
        while (stream.hasNext()) {
          WatchDevicesResponse message = stream.next();
          if (!message.getResumeToken().isEmpty()) token = message.getResumeToken();
          System.out.println(lineOf(message));
        }
      } catch (StatusRuntimeException end) {
        Status.Code code = end.getStatus().getCode();
        System.out.println("ended " + code);
        switch (code) {
          case UNAVAILABLE -> Thread.sleep(1_000);
          case CANCELLED -> next = Context.ROOT.withCancellation();
          default -> throw end;
        }
      } finally {
        current.detach(former);
        current = next;
      }
    }
  }

  private static void cancelForEachLine() {
    try (BufferedReader input = new BufferedReader(new InputStreamReader(System.in))) {
      while (input.readLine() != null) current.cancel(null);
    } catch (IOException error) {
      System.err.println(error);
    }
    System.exit(0);
  }

  private static String lineOf(WatchDevicesResponse message) {
    return switch (message.getUpdateCase()) {
      case DEVICE -> message.getDevice().getDeviceId() + " " + message.getDevice().getHealth();
      default -> message.getUpdateCase().name().toLowerCase();
    };
  }
}
