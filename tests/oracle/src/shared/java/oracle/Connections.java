package oracle;

import java.io.IOException;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.nio.charset.StandardCharsets;

/** Serves processes that share this program. Each connection has a thread and a shard, as if it were the only one. */
final class Connections {
    private static final int FIRST_WITHIN_MS = 60_000;
    private int open = 0;

    /** Writes the port to a stream, which is closed then. Ends with the last connection. */
    void serve(OutputStream stdout) throws IOException {
        try (ServerSocket server = new ServerSocket(0, 50, InetAddress.getLoopbackAddress())) {
            stdout.write((server.getLocalPort() + "\n").getBytes(StandardCharsets.US_ASCII));
            stdout.close();
            server.setSoTimeout(FIRST_WITHIN_MS);
            Socket socket = server.accept();
            server.setSoTimeout(0);
            while (true) {
                welcome(socket);
                socket = server.accept();
            }
        } catch (SocketTimeoutException e) {
            System.err.println("no connection within " + FIRST_WITHIN_MS + " ms");
        }
    }

    /** Counts a connection before its first line, the process id: a client with that line keeps the program running. */
    private synchronized void welcome(Socket socket) throws IOException {
        open++;
        Thread thread = new Thread(() -> run(socket));
        thread.setDaemon(true);
        thread.start();
    }

    private void run(Socket socket) {
        try (socket) {
            socket.setTcpNoDelay(true);
            socket.getOutputStream().write((ProcessHandle.current().pid() + "\n").getBytes(StandardCharsets.US_ASCII));
            new Main().exchange(socket.getInputStream(), socket.getOutputStream());
        } catch (IOException e) {
            System.err.println("a client ended: " + e);
        } finally {
            closed();
        }
    }

    private synchronized void closed() {
        open--;
        if (open == 0) System.exit(0);
    }
}
