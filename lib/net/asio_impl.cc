// This is the one file that compiles Asio's own functions: train_net defines
// BOOST_ASIO_SEPARATE_COMPILATION for all who use it.
#include <boost/asio/impl/src.hpp>
